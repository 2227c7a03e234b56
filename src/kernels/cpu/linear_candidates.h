// Every way the CPU backend has to compute a fully connected layer or a gradient of one, in the order of expected
// speed. In f32 there is always one; in bf16 only oneDNN may have one.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace trifold::cpu {

// For linear.forward, linear.backward_data and linear.backward_weights.
std::vector<KernelPtr> linear_candidates(const KernelRequest& request);

}  // namespace trifold::cpu
