// sigmoid: y = 1 / (1 + exp(-x)).
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct Sigmoid : ActivationFunction {
  static constexpr const char* help = "1 / (1 + exp(-x))";
  static constexpr std::array samples = {ActivationSample{-1, 0.2689414213699951, 0.1966119332414819},
                                         ActivationSample{0, 0.5, 0.25},
                                         ActivationSample{2, 0.8807970779778823, 0.1049935854035066}};

  template <class N>
  TRIFOLD_FORMULA N value(N x) {
    return 1.0 / (1.0 + exp(-x));
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N y) {
    return dy * y * (1.0 - y);
  }
};

}  // namespace trifold
