#include "kernels/cuda/cudnn_conv.h"

#include <array>
#include <map>
#include <mutex>

#include "core/error.h"

namespace trifold::cuda {
namespace {

cudnnDataType_t data_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      TRIFOLD_CHECK(false, "cuDNN has no convolutions of {}", name_of(type));
  }
}

int narrow(std::int64_t value) {
  return static_cast<int>(value);
}

constexpr int kMostAlgorithms = 16;

// The three passes differ in types and functions, not in what is done with them.
template <class Performance, class Find>
ConvAlgorithm search(CudaDevice& device, const char* pass, const CudnnConvProblem& problem, std::size_t limit,
                     Find find) {
  static std::mutex mutex;
  static std::map<std::string, ConvAlgorithm> known;
  const std::string key = fmt::format("{} {} {} {}", device.name(), pass, limit, problem.key());
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;

  const DeviceMemory x(device, problem.args().x.bytes());
  const DeviceMemory w(device, problem.args().w.bytes());
  const DeviceMemory y(device, problem.args().y.bytes());
  const DeviceMemory workspace(device, limit);
  std::array<Performance, kMostAlgorithms> results{};
  int count = 0;
  check(find(x.data(), w.data(), y.data(), workspace.data(), &count, results.data()), pass);
  for (int i = 0; i < count; ++i) {  // fastest first
    const Performance& result = results[static_cast<std::size_t>(i)];
    if (result.status != CUDNN_STATUS_SUCCESS || result.determinism != CUDNN_DETERMINISTIC || result.memory > limit)
      continue;
    return known[key] = {static_cast<int>(result.algo), result.memory};
  }
  fail_runtime(
      "cuDNN has no deterministic algorithm for {} ({}) within {} bytes of workspace; \"kernel\": \"own\" does", pass,
      problem.key(), limit);
}

}  // namespace

CudnnTensor CudnnTensor::image(const TensorDesc& desc) {
  cudnnTensorDescriptor_t handle = nullptr;
  TRIFOLD_CUDA(cudnnCreateTensorDescriptor(&handle));
  CudnnTensor tensor;
  tensor.handle_ = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>(handle);
  const cudnnTensorFormat_t format = desc.layout.plain() ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
  TRIFOLD_CUDA(cudnnSetTensor4dDescriptor(handle, format, data_type(desc.dtype), narrow(desc.shape[0]),
                                          narrow(desc.shape[1]), narrow(desc.shape[2]), narrow(desc.shape[3])));
  return tensor;
}

CudnnTensor CudnnTensor::vector(std::int64_t channels) {
  return image({{1, channels, 1, 1}});
}

CudnnRelu::CudnnRelu() {
  cudnnActivationDescriptor_t handle = nullptr;
  TRIFOLD_CUDA(cudnnCreateActivationDescriptor(&handle));
  handle_ = Owned<cudnnActivationDescriptor_t, cudnnDestroyActivationDescriptor>(handle);
  TRIFOLD_CUDA(cudnnSetActivationDescriptor(handle, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
}

CudnnConvProblem::CudnnConvProblem(const Args& args)
    : args_(args), x_(CudnnTensor::image(args.x)), y_(CudnnTensor::image(args.y)) {
  cudnnFilterDescriptor_t filter = nullptr;
  TRIFOLD_CUDA(cudnnCreateFilterDescriptor(&filter));
  w_ = Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>(filter);
  const Shape& w = args.w.shape;
  const cudnnTensorFormat_t format = args.w.layout.plain() ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
  TRIFOLD_CUDA(cudnnSetFilter4dDescriptor(filter, data_type(args.w.dtype), format, narrow(w[0]), narrow(w[1]),
                                          narrow(w[2]), narrow(w[3])));

  cudnnConvolutionDescriptor_t convolution = nullptr;
  TRIFOLD_CUDA(cudnnCreateConvolutionDescriptor(&convolution));
  convolution_ = Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>(convolution);
  const Conv2dArgs& a = args.args;
  TRIFOLD_CUDA(cudnnSetConvolution2dDescriptor(convolution, narrow(a.pad[0]), narrow(a.pad[1]), narrow(a.stride[0]),
                                               narrow(a.stride[1]), narrow(a.dilation[0]), narrow(a.dilation[1]),
                                               CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  TRIFOLD_CUDA(cudnnSetConvolutionGroupCount(convolution, narrow(a.groups)));
  // f32 means f32: no TF32. In 16 bits, tensor cores.
  const cudnnMathType_t math = args.x.dtype == DType::f32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  TRIFOLD_CUDA(cudnnSetConvolutionMathType(convolution, math));
}

std::string CudnnConvProblem::key() const {
  return fmt::format("x {} w {} y {} {}", to_string(args_.x), to_string(args_.w), to_string(args_.y),
                     args_.args.text());
}

ConvAlgorithm find_forward(CudaDevice& device, const CudnnConvProblem& problem, std::size_t workspace_limit) {
  return search<cudnnConvolutionFwdAlgoPerf_t>(
      device, "forward convolution", problem, workspace_limit,
      [&](auto* x, auto* w, auto* y, auto* workspace, int* count, auto* results) {
        return cudnnFindConvolutionForwardAlgorithmEx(device.cudnn(), problem.x(), x, problem.w(), w,
                                                      problem.convolution(), problem.y(), y, kMostAlgorithms, count,
                                                      results, workspace, workspace_limit);
      });
}

ConvAlgorithm find_backward_data(CudaDevice& device, const CudnnConvProblem& problem, std::size_t workspace_limit) {
  return search<cudnnConvolutionBwdDataAlgoPerf_t>(
      device, "input gradient of a convolution", problem, workspace_limit,
      [&](auto* x, auto* w, auto* y, auto* workspace, int* count, auto* results) {
        return cudnnFindConvolutionBackwardDataAlgorithmEx(device.cudnn(), problem.w(), w, problem.y(), y,
                                                           problem.convolution(), problem.x(), x, kMostAlgorithms,
                                                           count, results, workspace, workspace_limit);
      });
}

ConvAlgorithm find_backward_weights(CudaDevice& device, const CudnnConvProblem& problem, std::size_t workspace_limit) {
  return search<cudnnConvolutionBwdFilterAlgoPerf_t>(
      device, "weight gradient of a convolution", problem, workspace_limit,
      [&](auto* x, auto* w, auto* y, auto* workspace, int* count, auto* results) {
        return cudnnFindConvolutionBackwardFilterAlgorithmEx(device.cudnn(), problem.x(), x, problem.y(), y,
                                                             problem.convolution(), problem.w(), w, kMostAlgorithms,
                                                             count, results, workspace, workspace_limit);
      });
}

}  // namespace trifold::cuda
