// hardsigmoid: the sigmoid as straight lines, y = relu6(x + 3) / 6, as in MobileNetV3. The gradient reads x, because
// rounding may take y to 0 or 1 where x is not yet at an end.
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct Hardsigmoid : ActivationFunction {
  static constexpr const char* help = "(x + 3) / 6, cut off at 0 and at 1";
  static constexpr GradientFrom gradient_from = GradientFrom::input;
  static constexpr std::array kinks = {-3.0, 3.0};
  static constexpr std::array samples = {ActivationSample{-4, 0, 0},
                                         ActivationSample{-3, 0, 0},
                                         ActivationSample{-1, 1.0 / 3, 1.0 / 6},
                                         ActivationSample{1, 2.0 / 3, 1.0 / 6},
                                         ActivationSample{3, 1, 0},
                                         ActivationSample{4, 1, 0}};

  template <class N>
  TRIFOLD_FORMULA N value(N x) {
    return min(6.0, max(0.0, x + 3.0)) / 6.0;
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N x) {
    return select((x > -3.0) & (x < 3.0), dy / 6.0, 0.0);
  }
};

}  // namespace trifold
