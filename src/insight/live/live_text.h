// Texts of the live view, fitted to columns of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/terminal_color.h"

namespace trifold {

struct LiveRunOfText {
  std::string text = {};
  Tone tone = Tone::plain;
};
using LiveLine = std::vector<LiveRunOfText>;

// How many columns a text takes: one a character.
int columns_of(const std::string& text);
int columns_of(const LiveLine& line);
std::string plain_text(const LiveLine& line);

// The first `columns` characters.
std::string clipped(const std::string& text, int columns);
// Clipped or filled to exactly so many.
std::string left(const std::string& text, int columns);
std::string right(const std::string& text, int columns);
// As left(), but what is clipped is the beginning: of a long name, the end tells more.
std::string left_by_end(const std::string& text, int columns);

// "0.3 ms", "12 ms", "4.2 s", "3:05"
std::string format_short_duration(double seconds);
// "45.0 MB"
std::string format_live_bytes(std::size_t bytes);

}  // namespace trifold
