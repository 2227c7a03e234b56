// Colour, decided in one place: only on a terminal, only where it says something (a warning, an error, a best value),
// and never against NO_COLOR (https://no-color.org) or on a terminal that cannot (TERM=dumb).
#pragma once

#include <string>
#include <string_view>

namespace trifold {

enum class Tone { plain, good, warning, error, strong, faint };

struct TerminalFacts {
  bool is_terminal = false;
  const char* no_color = nullptr;  // variables of the environment; null: not set
  const char* term = nullptr;
};

// Whether the cursor can be moved there, to write over what was written.
bool can_redraw(const TerminalFacts& facts);
bool wants_color(const TerminalFacts& facts);

TerminalFacts facts_of(int descriptor);
// Decided at the first call for standard output and for standard error, and the same from then on.
bool colors_standard_output();
bool colors_standard_error();

// `text` as it is, or between the sequences that colour it.
std::string paint(std::string_view text, Tone tone, bool colors);

// "trifold: sentence" and the line's end, as standard error gets it: its beginning has the tone.
std::string sentence_for_user(std::string_view sentence, Tone tone);

}  // namespace trifold
