// What four descriptors describe together, checked as the convolution functions check them. The same for all three
// passes: x, w and y stand for dx, dw and dy too.
#pragma once

#include "cudnn/convolution.h"
#include "cudnn/descriptors.h"

namespace gpusim {

struct ConvolutionInputs {
  const cudnnTensorStruct* x = nullptr;
  const cudnnFilterStruct* w = nullptr;
  const cudnnConvolutionStruct* convolution = nullptr;
};

struct ConvolutionProblem {
  ConvolutionShape shape;
  Element type = Element::f32;  // of x, w and y
  cudnnTensorStruct x;
  cudnnFilterStruct w;
  cudnnTensorStruct y;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  bool flipped = false;  // CUDNN_CONVOLUTION: the filter is mirrored
};

// CUDNN_STATUS_SUCCESS, or the refusal. `shape` then says what the convolution gives.
cudnnStatus_t infer_output(const std::string& function, const ConvolutionInputs& inputs, ConvolutionShape& shape);
cudnnStatus_t describe(const std::string& function, const ConvolutionInputs& inputs, const cudnnTensorStruct* y,
                       ConvolutionProblem& problem);

}  // namespace gpusim
