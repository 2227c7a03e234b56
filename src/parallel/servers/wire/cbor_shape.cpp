#include "parallel/servers/wire/cbor_shape.h"

#include <array>
#include <cstdint>

namespace trifold {
namespace {

constexpr const char* kCutOff = "its fields end too early";

bool continues(std::byte byte) {
  return (byte & std::byte{0xC0}) == std::byte{0x80};
}

// Without surrogates, overlong forms and what is beyond Unicode: such text could not be written as JSON later.
bool is_utf8(std::span<const std::byte> text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = std::to_integer<std::uint32_t>(text[i]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (length == 0 || first > 0xF4 || length > text.size() - i) return false;
    for (std::size_t k = 1; k < length; ++k)
      if (!continues(text[i + k])) return false;
    if (length > 2) {
      const auto second = std::to_integer<std::uint32_t>(text[i + 1]);
      if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) || (first == 0xF0 && second < 0x90) ||
          (first == 0xF4 && second >= 0x90))
        return false;
    }
    i += length;
  }
  return true;
}

class CborWalk {
 public:
  explicit CborWalk(std::span<const std::byte> bytes) : rest_(bytes) {}

  const char* fault() {
    std::size_t values = 0;
    std::size_t depth = 0;
    open_[0] = 1;
    for (;;) {
      while (open_[depth] == 0) {
        if (depth == 0) return rest_.empty() ? nullptr : "there is more than fields in its head";
        --depth;
      }
      --open_[depth];
      if (++values > kMostFieldValues) return "its fields are too many";
      std::uint64_t inner = 0;
      if (const char* wrong = value(inner); wrong != nullptr) return wrong;
      if (inner == 0) continue;
      if (depth == kDeepestFields) return "its fields are nested too deep";
      open_[++depth] = inner;
    }
  }

 private:
  // Steps over a value; of lists and maps over their heads, and `inner` values come next.
  const char* value(std::uint64_t& inner) {
    if (rest_.empty()) return kCutOff;
    const auto first = std::to_integer<unsigned>(rest_[0]);
    const unsigned major = first >> 5, low = first & 31;
    rest_ = rest_.subspan(1);
    if (low > 27) return "its fields have a length that is not known in advance";
    std::uint64_t argument = low;
    if (low >= 24) {
      const std::size_t bytes = std::size_t{1} << (low - 24);
      if (rest_.size() < bytes) return kCutOff;
      argument = 0;
      for (std::size_t i = 0; i < bytes; ++i) argument = argument << 8 | std::to_integer<std::uint64_t>(rest_[i]);
      rest_ = rest_.subspan(bytes);
    }
    switch (major) {
      case 0:
      case 1:
        return nullptr;
      case 3:
        if (argument > rest_.size()) return kCutOff;
        if (!is_utf8(rest_.first(static_cast<std::size_t>(argument)))) return "its fields have text that is not UTF-8";
        rest_ = rest_.subspan(static_cast<std::size_t>(argument));
        return nullptr;
      case 4:
      case 5:
        // Every value has a byte at least.
        if (argument > rest_.size()) return kCutOff;
        inner = major == 5 ? 2 * argument : argument;
        return nullptr;
      case 7:
        // false, true, null and floats.
        return (low >= 20 && low <= 22) || (low >= 25 && low <= 27) ? nullptr : "its fields have an unknown value";
      default:
        return "its fields have an unknown value";
    }
  }

  std::span<const std::byte> rest_;
  std::array<std::uint64_t, kDeepestFields + 1> open_ = {};  // values still to come, by depth
};

}  // namespace

const char* fault_of_cbor(std::span<const std::byte> bytes) {
  return CborWalk(bytes).fault();
}

}  // namespace trifold
