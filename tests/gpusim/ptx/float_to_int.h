// The conversion of an integral floating-point value to an integer type: it saturates.
#pragma once

#include <cstdint>
#include <limits>

namespace gpusim::ptx {

// `wide`: source or destination has 64 bits; NaN then becomes the value with only the top bit set, else 0.
template <class D, bool wide>
inline D saturating_integer(double value) {
  if (value != value) return wide ? static_cast<D>(std::uint64_t{1} << (8 * sizeof(D) - 1)) : D{0};
  constexpr auto kLowest = std::numeric_limits<D>::min();
  constexpr auto kHighest = std::numeric_limits<D>::max();
  if (value <= static_cast<double>(kLowest)) return kLowest;
  if (value >= static_cast<double>(kHighest)) return kHighest;
  return static_cast<D>(value);
}

}  // namespace gpusim::ptx
