// relu6: relu that ends at 6, as in MobileNetV2.
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct Relu6 : ActivationFunction {
  static constexpr const char* help = "x cut off at 0 and at 6";
  static constexpr std::array kinks = {0.0, 6.0};
  static constexpr std::array samples = {ActivationSample{-1, 0, 0}, ActivationSample{0, 0, 0},
                                         ActivationSample{3, 3, 1}, ActivationSample{6, 6, 0},
                                         ActivationSample{7, 6, 0}};

  template <class N>
  TRIFOLD_FORMULA N value(N x) {
    return min(6.0, max(0.0, x));
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N y) {
    return select((y > 0.0) & (y < 6.0), dy, 0.0);
  }
};

}  // namespace trifold
