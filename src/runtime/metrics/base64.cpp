#include "runtime/metrics/base64.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace trifold {

std::string to_base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), 3))) {
    std::uint32_t group = 0;  // of three bytes: four digits
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) text += i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63u] : '=';
  }
  return text;
}

}  // namespace trifold
