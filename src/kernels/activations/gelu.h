// gelu: y = x * P(X <= x) for a standard normal X, by the error function and not its tanh approximation.
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct Gelu : ActivationFunction {
  static constexpr const char* help = "x times the normal distribution function of x";
  static constexpr GradientFrom gradient_from = GradientFrom::input;
  static constexpr std::array samples = {ActivationSample{-1, -0.158655253931457, -0.08331547058768635},
                                         ActivationSample{0, 0, 0.5},
                                         ActivationSample{2, 1.954499736103642, 1.085231801078197}};

  template <class N>
  TRIFOLD_FORMULA N value(N x) {
    return x * normal(x).below;
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N x) {
    const auto at = normal(x);
    return dy * fma(x * at.bell, 0.3989422804014327, at.below);  // 1 / sqrt(2 pi)
  }
};

}  // namespace trifold
