// Element-wise functions and their gradients over a range of elements, on the calling thread. Everything may be done in
// place. A table has a loop for each function of activations/, in the order of the enum Activation.
#pragma once

#include "core/parallel.h"
#include "kernels/activation_list.h"

namespace trifold::cpu {

struct ActivationForwardArgs {
  const float* x = nullptr;
  float* y = nullptr;
  const double* parameters = nullptr;  // [kMostActivationParameters]
};

struct ActivationBackwardArgs {
  const float* dy = nullptr;
  const float* saved = nullptr;  // x or y, see GradientFrom
  float* dx = nullptr;
  const double* parameters = nullptr;  // [kMostActivationParameters]
};

struct ActivationLoops {
  using Forward = void (*)(const ActivationForwardArgs& args, Range elements);
  using Backward = void (*)(const ActivationBackwardArgs& args, Range elements);

  Forward forward[kActivationCount];
  Backward backward[kActivationCount];
};

const ActivationLoops& activation_loops();

}  // namespace trifold::cpu
