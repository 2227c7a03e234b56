#include "core/terminal_color.h"

#include <cstdlib>

#include <fmt/color.h>
#include <unistd.h>

namespace trifold {
namespace {

fmt::text_style style_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return {};
    case Tone::good:
      return fmt::fg(fmt::terminal_color::green);
    case Tone::warning:
      return fmt::fg(fmt::terminal_color::yellow);
    case Tone::error:
      return fmt::fg(fmt::terminal_color::red);
    case Tone::strong:
      return fmt::emphasis::bold;
    case Tone::faint:
      return fmt::emphasis::faint;
  }
  return {};
}

}  // namespace

bool can_redraw(const TerminalFacts& facts) {
  return facts.is_terminal && facts.term != nullptr && *facts.term != '\0' && std::string_view(facts.term) != "dumb";
}

bool wants_color(const TerminalFacts& facts) {
  const bool forbidden = facts.no_color != nullptr && *facts.no_color != '\0';
  return can_redraw(facts) && !forbidden;
}

TerminalFacts facts_of(int descriptor) {
  return {.is_terminal = ::isatty(descriptor) != 0, .no_color = std::getenv("NO_COLOR"), .term = std::getenv("TERM")};
}

bool colors_standard_output() {
  static const bool colors = wants_color(facts_of(STDOUT_FILENO));
  return colors;
}

bool colors_standard_error() {
  static const bool colors = wants_color(facts_of(STDERR_FILENO));
  return colors;
}

std::string paint(std::string_view text, Tone tone, bool colors) {
  if (!colors || tone == Tone::plain) return std::string(text);
  return fmt::format(style_of(tone), "{}", text);
}

std::string sentence_for_user(std::string_view sentence, Tone tone) {
  return fmt::format("{} {}\n", paint("trifold:", tone, colors_standard_error()), sentence);
}

}  // namespace trifold
