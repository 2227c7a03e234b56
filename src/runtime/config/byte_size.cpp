#include "runtime/config/byte_size.h"

#include <charconv>
#include <string>

namespace trifold {

std::optional<std::int64_t> parse_byte_size(std::string_view text) {
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  if (error != std::errc() || !(amount >= 0)) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);

  double factor = 1;
  if (!unit.empty() && unit != "B") {
    // SI writes kB, many write KB; KiB has one spelling.
    const std::size_t power = unit == "kB" ? 1 : std::string_view("KMGT").find(unit.front()) + 1;
    if (power == 0) return std::nullopt;
    unit.remove_prefix(1);
    if (unit != "B" && unit != "iB") return std::nullopt;
    for (std::size_t i = 0; i < power; ++i) factor *= unit == "iB" ? 1024 : 1000;
  }
  const double bytes = amount * factor;
  constexpr double kMost = 9e18;
  if (!(bytes <= kMost)) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

}  // namespace trifold
