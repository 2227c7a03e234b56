// Division of sizes into equal pieces, the last of which may be smaller. Not for negative numbers.
#pragma once

#include <cstdint>

namespace trifold {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// The least multiple of b that is no less than a.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace trifold
