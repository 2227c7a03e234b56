// .ftz, .sat and the rounding modes, shared by the floating-point handlers.
#pragma once

#include <bit>
#include <cfenv>
#include <cstdint>
#include <type_traits>

#include "ptx/instruction.h"

namespace gpusim::ptx {

// Subnormal floats become zero with their sign. (.ftz does not exist for f64.)
inline float flush_subnormal(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits & 0x7f800000U) == 0 ? bits & 0x80000000U : bits);
}
template <class T>
inline T flush_if(T value, bool flush) {
  if constexpr (std::is_same_v<T, float>) return flush ? flush_subnormal(value) : value;
  return value;
}

// To [0, 1]; NaN becomes 0.
template <class T>
inline T saturate(T value) {
  return value > T{0} ? (value < T{1} ? value : T{1}) : T{0};
}
template <class T>
inline T saturate_if(T value, bool wanted) {
  return wanted ? saturate(value) : value;
}

// Sets the host's rounding for its lifetime. What is computed under it must pass through opaque(), or the compiler
// moves it out.
class ScopedRounding {
 public:
  explicit ScopedRounding(Rounding rounding) : previous_(std::fegetround()) {
    static constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(kModes[static_cast<std::size_t>(rounding)]);
  }
  ~ScopedRounding() { std::fesetround(previous_); }
  ScopedRounding(const ScopedRounding&) = delete;
  ScopedRounding& operator=(const ScopedRounding&) = delete;

 private:
  int previous_;
};

template <class T>
inline T opaque(T value) {
  asm volatile("" : "+m"(value) : : "memory");
  return value;
}

}  // namespace gpusim::ptx
