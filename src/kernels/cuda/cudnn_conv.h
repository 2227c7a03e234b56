// cuDNN's descriptors of a convolution, and the search for its algorithms.
#pragma once

#include <string>

#include "core/cuda/cuda_device.h"
#include "core/tensor.h"
#include "kernels/ops/conv2d.h"

namespace trifold::cuda {

class CudnnTensor {
 public:
  CudnnTensor() = default;
  static CudnnTensor image(const TensorDesc& desc);  // [N,C,H,W] in its layout
  static CudnnTensor vector(std::int64_t channels);  // f32 [1,C,1,1]
  cudnnTensorDescriptor_t get() const { return handle_.get(); }

 private:
  Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor> handle_;
};

class CudnnRelu {
 public:
  CudnnRelu();
  cudnnActivationDescriptor_t get() const { return handle_.get(); }

 private:
  Owned<cudnnActivationDescriptor_t, cudnnDestroyActivationDescriptor> handle_;
};

class CudnnConvProblem {
 public:
  struct Args {
    TensorDesc x, w, y;  // x and y stand for their gradients too; w is in the type and layout that cuDNN sees
    Conv2dArgs args;
  };
  explicit CudnnConvProblem(const Args& args);

  cudnnTensorDescriptor_t x() const { return x_.get(); }
  cudnnFilterDescriptor_t w() const { return w_.get(); }
  cudnnTensorDescriptor_t y() const { return y_.get(); }
  cudnnConvolutionDescriptor_t convolution() const { return convolution_.get(); }
  const Args& args() const { return args_; }
  std::string key() const;  // what the search depends on

 private:
  Args args_;
  CudnnTensor x_, y_;
  Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> w_;
  Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution_;
};

struct ConvAlgorithm {
  int algorithm = 0;  // of the enum that belongs to the pass
  std::size_t workspace_bytes = 0;
};
// The fastest deterministic algorithm within the limit. Measured on memory of its own at the first call for a problem.
ConvAlgorithm find_forward(CudaDevice& device, const CudnnConvProblem& problem, std::size_t workspace_limit);
ConvAlgorithm find_backward_data(CudaDevice& device, const CudnnConvProblem& problem, std::size_t workspace_limit);
ConvAlgorithm find_backward_weights(CudaDevice& device, const CudnnConvProblem& problem, std::size_t workspace_limit);

}  // namespace trifold::cuda
