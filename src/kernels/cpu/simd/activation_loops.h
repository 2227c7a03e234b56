// Element-wise functions and their gradients over a range of elements, on the calling thread. Everything may be done in
// place. The gradient is computed from y, but gelu's from x.
#pragma once

#include "core/parallel.h"

namespace trifold::cpu {

struct ActivationForwardArgs {
  const float* x = nullptr;
  float* y = nullptr;
  float slope = 0;  // leaky_relu, > 0
};

struct ActivationBackwardArgs {
  const float* dy = nullptr;
  const float* saved = nullptr;  // y; gelu: x
  float* dx = nullptr;
  float slope = 0;  // leaky_relu, > 0
};

struct ActivationLoops {
  using Forward = void (*)(const ActivationForwardArgs& args, Range elements);
  using Backward = void (*)(const ActivationBackwardArgs& args, Range elements);

  Forward relu, leaky_relu, gelu, sigmoid, tanh;
  Backward relu_backward, leaky_relu_backward, gelu_backward, sigmoid_backward, tanh_backward;
};

const ActivationLoops& activation_loops();

}  // namespace trifold::cpu
