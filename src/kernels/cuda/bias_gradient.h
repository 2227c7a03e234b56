// The parts of a convolution or linear layer that its matrix product leaves to do: the bias added to y, and its
// gradient. Both layouts (NCHW and NHWC), all element types; sums in float in a fixed order.
#pragma once

#include "kernels/cuda/cuda_kernel.h"

namespace trifold::cuda {

// dbias[c] = sum of dy over samples and pixels.
struct BiasGradientArgs {
  const CudaDevice* device = nullptr;  // its compute stream
  ImageView view = {};                 // of dy
  DType dtype = DType::f32;            // of dy
  const void* dy = nullptr;
  std::byte* scratch = nullptr;  // bias_gradient_scratch()
  float* dbias = nullptr;        // [C]
};
std::size_t bias_gradient_scratch(const ImageView& view);  // bytes
void launch_bias_gradient(const BiasGradientArgs& args);

// y = y + bias, then max(0, y) with relu, in place.
struct AddBiasArgs {
  const CudaDevice* device = nullptr;  // its compute stream
  ImageView view = {};                 // of y
  DType dtype = DType::f32;            // of y
  void* y = nullptr;
  const float* bias = nullptr;  // [C]; null: relu alone
  bool relu = false;
};
void launch_add_bias_relu(const AddBiasArgs& args);

}  // namespace trifold::cuda
