// The gradient of a convolution's weights: dw[o,c,r,s] = sum over samples and pixels of dy times the x under that tap.
// The sum is cut into slices, enough to fill the GPU; a second pass adds the slices in order. Images are NCHW.
#pragma once

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/own_conv_shape.h"

namespace trifold::cuda {

struct WeightGradientPlan {
  WeightGradientPlan(const Conv2dArgs& conv_args, const ConvShape& conv, const CudaDevice& device);

  Conv2dArgs args;
  ConvShape shape;
  int slices = 1;
  int pixels_per_slice = 0;  // pixels of y over all samples, in whole stages of the product

  bool direct() const { return shape.groups > 1 && (shape.out_channels <= 8 || shape.in_channels * shape.taps() <= 8); }
  std::size_t scratch_bytes() const {
    return slices == 1 ? 0 : static_cast<std::size_t>(slices * shape.weights()) * sizeof(float);
  }
};

struct WeightGradientTensors {
  DType dtype = DType::f32;
  const void* x = nullptr;
  const void* dy = nullptr;
  float* dw = nullptr;
  std::byte* scratch = nullptr;  // scratch_bytes()
};
void launch_weight_gradient(const WeightGradientPlan& plan, const WeightGradientTensors& tensors, cudaStream_t stream);

}  // namespace trifold::cuda
