// Every way the CPU backend has to compute a convolution or a gradient of one: oneDNN's direct and Winograd
// convolutions and our own. In the order of expected speed, named by Kernel::implementation(). With strict_math none of
// them is a Winograd. In f32 there is always one; in bf16 only oneDNN may have some.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace trifold::cpu {

// For conv2d.forward, conv2d.backward_data and conv2d.backward_weights.
std::vector<KernelPtr> conv_candidates(const KernelRequest& request);

}  // namespace trifold::cpu
