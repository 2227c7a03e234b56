// relu: y = max(0, x). The compiler fuses it with the ops before and after it (runtime/compiler/fusion.cpp).
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct Relu : ActivationFunction {
  static constexpr const char* help = "max(0, x)";
  static constexpr std::array kinks = {0.0};
  static constexpr std::array samples = {ActivationSample{-1.5, 0, 0}, ActivationSample{0, 0, 0},
                                         ActivationSample{2, 2, 1}};

  template <class N>
  TRIFOLD_FORMULA N value(N x) {
    return max(0.0, x);
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N y) {
    return select(y > 0.0, dy, 0.0);
  }
};

}  // namespace trifold
