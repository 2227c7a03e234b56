#include "insight/live/live_text.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "insight/metrics/progress_format.h"

namespace trifold {
namespace {

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

}  // namespace

int columns_of(const std::string& text) {
  return static_cast<int>(std::ranges::count_if(text, begins_character));
}

std::string plain_text(const LiveLine& line) {
  std::string text;
  for (const LiveRunOfText& run : line) text += run.text;
  return text;
}

std::string format_short_duration(double seconds) {
  if (seconds < 0.00995) return fmt::format("{:.1f} ms", 1e3 * seconds);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", 1e3 * seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  return format_duration(seconds);
}

std::string format_live_bytes(std::size_t bytes) {
  const auto amount = static_cast<double>(bytes);
  if (amount < 999.5) return fmt::format("{} B", bytes);
  if (amount < 999.5e3) return fmt::format("{:.1f} kB", amount / 1e3);
  if (amount < 999.5e6) return fmt::format("{:.1f} MB", amount / 1e6);
  return fmt::format("{:.2f} GB", amount / 1e9);
}

int columns_of(const LiveLine& line) {
  return std::accumulate(line.begin(), line.end(), 0,
                         [](int sum, const LiveRunOfText& run) { return sum + columns_of(run.text); });
}

std::string clipped(const std::string& text, int columns) {
  int taken = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (begins_character(text[i]) && taken++ == std::max(columns, 0)) return text.substr(0, i);
  return text;
}

std::string left(const std::string& text, int columns) {
  std::string fitted = clipped(text, columns);
  fitted.append(static_cast<std::size_t>(std::max(0, columns - columns_of(fitted))), ' ');
  return fitted;
}

std::string left_by_end(const std::string& text, int columns) {
  int excess = columns_of(text) - columns;
  if (excess <= 0 || columns < 4) return left(text, columns);
  std::size_t at = 0;
  for (excess += 3; excess > 0 && at < text.size(); ++at)  // two dots, and a column to the next
    if (begins_character(text[at])) --excess;
  while (at < text.size() && !begins_character(text[at])) ++at;
  return left(".." + text.substr(at), columns);
}

std::string right(const std::string& text, int columns) {
  const std::string fitted = clipped(text, columns);
  return std::string(static_cast<std::size_t>(std::max(0, columns - columns_of(fitted))), ' ') + fitted;
}

}  // namespace trifold
