// A float or double as the formulas of activations/ use it, on the host and in CUDA kernels.
#pragma once

#include <cmath>

#if defined(__CUDACC__)
#define TRIFOLD_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TRIFOLD_HOST_DEVICE inline
#endif

namespace trifold {

template <class T>
struct ScalarNumber {
  T value;

  TRIFOLD_HOST_DEVICE ScalarNumber(double number) : value(static_cast<T>(number)) {}
  TRIFOLD_HOST_DEVICE static ScalarNumber of(T value) {
    ScalarNumber number(0.0);
    number.value = value;
    return number;
  }

  friend TRIFOLD_HOST_DEVICE ScalarNumber operator-(ScalarNumber a) { return of(-a.value); }
  friend TRIFOLD_HOST_DEVICE ScalarNumber operator+(ScalarNumber a, ScalarNumber b) { return of(a.value + b.value); }
  friend TRIFOLD_HOST_DEVICE ScalarNumber operator-(ScalarNumber a, ScalarNumber b) { return of(a.value - b.value); }
  friend TRIFOLD_HOST_DEVICE ScalarNumber operator*(ScalarNumber a, ScalarNumber b) { return of(a.value * b.value); }
  friend TRIFOLD_HOST_DEVICE ScalarNumber operator/(ScalarNumber a, ScalarNumber b) { return of(a.value / b.value); }
  friend TRIFOLD_HOST_DEVICE bool operator<(ScalarNumber a, ScalarNumber b) { return a.value < b.value; }
  friend TRIFOLD_HOST_DEVICE bool operator>(ScalarNumber a, ScalarNumber b) { return a.value > b.value; }

  friend TRIFOLD_HOST_DEVICE ScalarNumber select(bool mask, ScalarNumber a, ScalarNumber b) { return mask ? a : b; }
  // As VecNumber's: b if either is NaN.
  friend TRIFOLD_HOST_DEVICE ScalarNumber max(ScalarNumber a, ScalarNumber b) { return a > b ? a : b; }
  friend TRIFOLD_HOST_DEVICE ScalarNumber min(ScalarNumber a, ScalarNumber b) { return a < b ? a : b; }
  friend TRIFOLD_HOST_DEVICE ScalarNumber fma(ScalarNumber a, ScalarNumber b, ScalarNumber c) { return a * b + c; }
  friend TRIFOLD_HOST_DEVICE ScalarNumber exp(ScalarNumber x) { return of(::exp(x.value)); }
  friend TRIFOLD_HOST_DEVICE ScalarNumber tanh(ScalarNumber x) { return of(::tanh(x.value)); }

  // The normal distribution at x.
  struct Normal;
  friend TRIFOLD_HOST_DEVICE Normal normal(ScalarNumber x) {
    return {of(static_cast<T>(0.5) * (static_cast<T>(1) + ::erf(x.value * static_cast<T>(0.70710678118654752)))),
            of(::exp(static_cast<T>(-0.5) * x.value * x.value))};
  }
};

template <class T>
struct ScalarNumber<T>::Normal {
  ScalarNumber below;  // the probability of a value < x
  ScalarNumber bell;   // exp(-x^2 / 2)
};

}  // namespace trifold
