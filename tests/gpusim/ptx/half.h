// The two 16-bit floating-point formats as values: exact conversion to float, round to nearest even back.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace gpusim::ptx {

__extension__ typedef _Float16 NativeHalf;

struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(std::bit_cast<std::uint16_t>(static_cast<NativeHalf>(value))) {}
  explicit operator float() const { return static_cast<float>(std::bit_cast<NativeHalf>(bits)); }
};

struct Bfloat {
  std::uint16_t bits = 0;
  Bfloat() = default;
  explicit Bfloat(float value) {
    const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (x & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(is_nan ? 0x7fffU : (x + 0x7fffU + (x >> 16 & 1U)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

// Nearest float to a double, but inexact results get an odd last bit, so that rounding on to 16 bits is exact.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(value) || std::isinf(nearest)) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;  // toward zero
  return std::bit_cast<float>(bits | 1U);
}

// a * b + c rounded once to the 16-bit format H. The product is exact in double; the sum keeps its lost bits as a
// sticky last bit.
template <class H>
H fused_multiply_add(H a, H b, H c) {
  const double product = static_cast<double>(static_cast<float>(a)) * static_cast<float>(b);
  const double addend = static_cast<float>(c);
  double sum = product + addend;
  if (std::isfinite(sum)) {
    const double back = sum - product;
    const double error = (product - (sum - back)) + (addend - back);
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(sum);
    if (error != 0 && (bits & 1U) == 0) {
      const bool toward_zero = (error < 0) != (sum < 0);
      sum = std::bit_cast<double>(toward_zero ? bits - 1 : bits + 1);
    }
  }
  return H(round_to_odd(sum));
}

}  // namespace gpusim::ptx
