// Vector exp, and the functions built on it. For *.isa.cpp files only.
#pragma once

#include "kernels/cpu/simd/vec.h"

namespace trifold::cpu::TRIFOLD_ISA {

// e^x to 2 ulp; denormal results, 0 and infinity at the ends; NaN stays NaN (the order of min's and max's arguments).
inline Vec exponential(Vec x) {
  x = max(broadcast(-105.0f), min(broadcast(89.0f), x));
  // n = round(x / ln 2): adding 1.5 * 2^23 leaves the rounded integer in the low bits.
  const Vec magic = broadcast(12582912.0f);
  const Vec shifted = fma(x, broadcast(1.44269504089f), magic);
  const Vec n = shifted - magic;
  const IVec exponent = (IVec)shifted - (IVec)magic;
  // ln 2 in two parts, the first of 9 bits so that n * part is exact without fma.
  Vec r = fma(n, broadcast(-0.693359375f), x);
  r = fma(n, broadcast(2.12194440e-4f), r);
  // |r| <= ln(2)/2: the Taylor series to r^7 is good to 5e-9.
  Vec p = broadcast(1.0f / 5040);
  p = fma(p, r, broadcast(1.0f / 720));
  p = fma(p, r, broadcast(1.0f / 120));
  p = fma(p, r, broadcast(1.0f / 24));
  p = fma(p, r, broadcast(1.0f / 6));
  p = fma(p, r, broadcast(0.5f));
  p = fma(p * r, r, r) + 1.0f;
  // Two factors, as 2^n alone may not be a normal float.
  const IVec half = exponent >> 1;
  return p * (Vec)((half + 127) << 23) * (Vec)((exponent - half + 127) << 23);
}

inline Vec logistic(Vec x) {
  return 1.0f / (1.0f + exponential(-x));
}

inline Vec hyperbolic_tangent(Vec x) {
  // Of |x|, with the sign of x put back: for a negative x the sum would round to three times the error, which the
  // gradient, 1 - y^2, shows near -1.
  const Vec size = absolute(x);
  const Vec far = with_sign_of(x, 1.0f - 2.0f / (exponential(size + size) + 1.0f));
  // Near 0 the difference above cancels; the Taylor series to x^13 is exact to a float for |x| < 0.4.
  const Vec s = x * x;
  Vec p = broadcast(21844.0f / 6081075);
  p = fma(p, s, broadcast(-1382.0f / 155925));
  p = fma(p, s, broadcast(62.0f / 2835));
  p = fma(p, s, broadcast(-17.0f / 315));
  p = fma(p, s, broadcast(2.0f / 15));
  p = fma(p, s, broadcast(-1.0f / 3));
  return select(size < 0.4f, fma(p * s, x, x), far);
}

// The normal distribution at x: `below` is the probability of a value < x, (1 + erf(x / sqrt 2)) / 2, to 2e-7;
// `bell` is exp(-x^2 / 2). Abramowitz and Stegun 7.1.26, which needs that exponential anyway.
struct Normal {
  Vec below, bell;
};

inline Normal normal_at(Vec x) {
  const Vec bell = exponential(-0.5f * x * x);
  const Vec t = 1.0f / fma(absolute(x), broadcast(0.3275911f * 0.70710678f), broadcast(1.0f));
  Vec p = broadcast(0.5f * 1.061405429f);
  p = fma(p, t, broadcast(0.5f * -1.453152027f));
  p = fma(p, t, broadcast(0.5f * 1.421413741f));
  p = fma(p, t, broadcast(0.5f * -0.284496736f));
  p = fma(p, t, broadcast(0.5f * 0.254829592f));
  const Vec outside = p * t * bell;  // half of erfc(|x| / sqrt 2)
  return {select(x < 0.0f, outside, 1.0f - outside), bell};
}

}  // namespace trifold::cpu::TRIFOLD_ISA
