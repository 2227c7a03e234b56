// leaky_relu: y = x where x > 0, slope * x elsewhere. The gradient is read from y's sign, so the slope is above 0.
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct LeakyRelu : ActivationFunction {
  static constexpr const char* help = "x where x > 0, slope times x elsewhere";
  static constexpr std::array parameters = {
      ActivationParameter{.name = "slope", .fallback = 0.01, .minimum = 1e-6, .help = "of the negative side, above 0"}};
  static constexpr std::array kinks = {0.0};
  static constexpr std::array samples = {ActivationSample{-3, -0.03, 0.01}, ActivationSample{2, 2, 1}};

  template <class N>
  TRIFOLD_FORMULA N value(N x, N slope) {
    return select(x > 0.0, x, x * slope);
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N y, N slope) {
    return select(y > 0.0, dy, dy * slope);
  }
};

}  // namespace trifold
