// hardswish: silu with the sigmoid replaced by straight lines, y = x * relu6(x + 3) / 6, as in MobileNetV3.
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct Hardswish : ActivationFunction {
  static constexpr const char* help = "x times (x + 3) / 6, which is cut off at 0 and at 1";
  static constexpr GradientFrom gradient_from = GradientFrom::input;
  static constexpr std::array kinks = {-3.0, 3.0};
  static constexpr std::array samples = {ActivationSample{-4, 0, 0},
                                         ActivationSample{-3, 0, 0},
                                         ActivationSample{-1, -1.0 / 3, 1.0 / 6},
                                         ActivationSample{2, 5.0 / 3, 7.0 / 6},
                                         ActivationSample{3, 3, 1},
                                         ActivationSample{4, 4, 1}};

  template <class N>
  TRIFOLD_FORMULA N value(N x) {
    return x * min(6.0, max(0.0, x + 3.0)) / 6.0;
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N x) {
    return select(x > -3.0, select(x < 3.0, dy * (x / 3.0 + 0.5), dy), 0.0);
  }
};

}  // namespace trifold
