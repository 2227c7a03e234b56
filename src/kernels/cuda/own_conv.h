// Our own convolutions: implicit matrix products for ordinary groups, direct sums for thin ones (depthwise). Used where
// a job asks for them; the same call gives the same bits, and nothing but scratch is needed besides the tensors.
#pragma once

#include "kernels/kernel.h"

namespace trifold::cuda {

// For "conv2d.forward", "conv2d.backward_data" and "conv2d.backward_weights": images NCHW in f32, f16 or bf16, weights
// OIHW of the images' type; dw, bias and dbias f32. All sums are in float.
KernelPtr make_own_conv(const KernelRequest& request);

}  // namespace trifold::cuda
