// silu (swish): y = x * sigmoid(x).
#pragma once

#include "kernels/activation_function.h"

namespace trifold {

struct Silu : ActivationFunction {
  static constexpr const char* help = "x times the sigmoid of x";
  static constexpr GradientFrom gradient_from = GradientFrom::input;
  static constexpr std::array samples = {ActivationSample{-3, -0.1422776195327004, -0.08810410601516962},
                                         ActivationSample{0, 0, 0.5},
                                         ActivationSample{2, 1.761594155955765, 1.090784248784896}};

  template <class N>
  TRIFOLD_FORMULA N value(N x) {
    return x / (1.0 + exp(-x));
  }
  // With s = sigmoid(x) it is s * (1 + x * (1 - s)). Both s and 1 - s come from the exponential of -|x|: 1 - s taken
  // from s would lose its digits where s is close to 1, and x would magnify that.
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N x) {
    const N small = exp(-max(x, -x));
    const N larger = 1.0 / (1.0 + small);
    const N smaller = small * larger;
    const auto positive = x > 0.0;
    const N s = select(positive, larger, smaller);
    return dy * s * (1.0 + x * select(positive, smaller, larger));
  }
};

}  // namespace trifold
