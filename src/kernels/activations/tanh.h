// tanh: the hyperbolic tangent.
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct Tanh : ActivationFunction {
  static constexpr const char* help = "the hyperbolic tangent of x";
  static constexpr std::array samples = {ActivationSample{-1, -0.7615941559557649, 0.4199743416140261},
                                         ActivationSample{0, 0, 1},
                                         ActivationSample{0.5, 0.4621171572600097, 0.7864477329659274}};

  template <class N>
  TRIFOLD_FORMULA N value(N x) {
    return tanh(x);
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N y) {
    return dy * (1.0 - y * y);
  }
};

}  // namespace trifold
