// Making and setting convolution descriptors, and the shape of what a convolution gives.
#include <algorithm>

#include "cudnn/convolution_problem.h"
#include "cudnn/handle.h"

namespace gpusim {
namespace {

constexpr int kSpace = 2;  // dimensions of space that are simulated

cudnnStatus_t check_alive(const char* function, const cudnnConvolutionStruct* convolution) {
  const std::string name = function;
  if (!convolution) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, name + ": the descriptor is null");
  if (!convolution->alive) return refuse(CUDNN_STATUS_BAD_PARAM, name + ": the descriptor was destroyed");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set(const char* function, cudnnConvolutionStruct* convolution, int rank, const int* pad,
                  const int* stride, const int* dilation, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  const std::string name = function;
  if (const auto status = check_alive(function, convolution)) return status;
  if (!pad || !stride || !dilation) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, name + ": an array is null");
  if (rank != kSpace) return not_simulated(name + ": " + std::to_string(rank) + " dimensions of space");
  for (int d = 0; d < rank; ++d) {
    if (pad[d] < 0 || stride[d] < 1 || dilation[d] < 1) {
      return refuse(CUDNN_STATUS_BAD_PARAM, name + ": in dimension " + std::to_string(d) + " the padding is " +
                                                std::to_string(pad[d]) + ", the stride " + std::to_string(stride[d]) +
                                                ", the dilation " + std::to_string(dilation[d]));
    }
  }
  if (mode != CUDNN_CONVOLUTION && mode != CUDNN_CROSS_CORRELATION) {
    return refuse(CUDNN_STATUS_BAD_PARAM, name + ": no such mode");
  }
  if (compute != CUDNN_DATA_FLOAT) return not_simulated(name + ": computing in " + name_of(compute));
  convolution->rank = rank;
  std::copy_n(pad, rank, convolution->pad.begin());
  std::copy_n(stride, rank, convolution->stride.begin());
  std::copy_n(dilation, rank, convolution->dilation.begin());
  convolution->mode = mode;
  convolution->compute = compute;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  if (!convolution) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnCreateConvolutionDescriptor: the result pointer is null");
  }
  *convolution = new cudnnConvolutionStruct;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  if (const auto status = check_alive("cudnnDestroyConvolutionDescriptor", convolution)) return status;
  convolution->alive = false;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                                        cudnnMathType_t math) {
  if (const auto status = check_alive("cudnnSetConvolutionMathType", convolution)) return status;
  if (math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnSetConvolutionMathType: no such math type");
  }
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                                        cudnnMathType_t* math) {
  if (const auto status = check_alive("cudnnGetConvolutionMathType", convolution)) return status;
  *math = convolution->math;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  if (const auto status = check_alive("cudnnSetConvolutionGroupCount", convolution)) return status;
  if (groups < 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnSetConvolutionGroupCount: " + std::to_string(groups) + " groups");
  }
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int* groups) {
  if (const auto status = check_alive("cudnnGetConvolutionGroupCount", convolution)) return status;
  *groups = convolution->groups;
  return CUDNN_STATUS_SUCCESS;
}

// Reordering is about 8-bit filters; it changes nothing here.
GPUSIM_EXPORT cudnnStatus_t cudnnSetConvolutionReorderType(cudnnConvolutionDescriptor_t convolution,
                                                           cudnnReorderType_t reorder) {
  if (const auto status = check_alive("cudnnSetConvolutionReorderType", convolution)) return status;
  if (reorder != CUDNN_DEFAULT_REORDER && reorder != CUDNN_NO_REORDER) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnSetConvolutionReorderType: no such type");
  }
  convolution->reorder = reorder;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionReorderType(cudnnConvolutionDescriptor_t convolution,
                                                           cudnnReorderType_t* reorder) {
  if (const auto status = check_alive("cudnnGetConvolutionReorderType", convolution)) return status;
  *reorder = convolution->reorder;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                                            int pad_w, int stride_h, int stride_w, int dilation_h,
                                                            int dilation_w, cudnnConvolutionMode_t mode,
                                                            cudnnDataType_t compute) {
  const int pad[] = {pad_h, pad_w};
  const int stride[] = {stride_h, stride_w};
  const int dilation[] = {dilation_h, dilation_w};
  return set("cudnnSetConvolution2dDescriptor", convolution, 2, pad, stride, dilation, mode, compute);
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution, int rank,
                                                            const int pad[], const int stride[], const int dilation[],
                                                            cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  return set("cudnnSetConvolutionNdDescriptor", convolution, rank, pad, stride, dilation, mode, compute);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolution2dDescriptor(const cudnnConvolutionDescriptor_t convolution, int* pad_h,
                                                            int* pad_w, int* stride_h, int* stride_w, int* dilation_h,
                                                            int* dilation_w, cudnnConvolutionMode_t* mode,
                                                            cudnnDataType_t* compute) {
  if (const auto status = check_set("cudnnGetConvolution2dDescriptor", "convDesc", convolution)) return status;
  *pad_h = convolution->pad[0];
  *pad_w = convolution->pad[1];
  *stride_h = convolution->stride[0];
  *stride_w = convolution->stride[1];
  *dilation_h = convolution->dilation[0];
  *dilation_w = convolution->dilation[1];
  *mode = convolution->mode;
  *compute = convolution->compute;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t convolution,
                                                                  const cudnnTensorDescriptor_t x,
                                                                  const cudnnFilterDescriptor_t w, int rank,
                                                                  int output[]) {
  const std::string function = "cudnnGetConvolutionNdForwardOutputDim";
  ConvolutionShape shape;
  if (const auto status = infer_output(function, {x, w, convolution}, shape)) return status;
  if (rank != 4 || !output) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": room for " + std::to_string(rank) + " dimensions, not 4");
  }
  const int dims[] = {shape.n, shape.k, shape.p, shape.q};
  std::copy_n(dims, 4, output);
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t convolution,
                                                                  const cudnnTensorDescriptor_t x,
                                                                  const cudnnFilterDescriptor_t filter, int* n, int* c,
                                                                  int* h, int* w) {
  int dims[4] = {};
  if (const auto status = cudnnGetConvolutionNdForwardOutputDim(convolution, x, filter, 4, dims)) return status;
  *n = dims[0];
  *c = dims[1];
  *h = dims[2];
  *w = dims[3];
  return CUDNN_STATUS_SUCCESS;
}
