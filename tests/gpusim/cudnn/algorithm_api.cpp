// cudnnGet...Algorithm_v7, cudnnFind...Algorithm(Ex) and the workspace sizes of the three passes. "Found" times come
// from the shape alone, so that a choice made by them repeats.
#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "cudnn/algorithms.h"
#include "cudnn/handle.h"
#include "engine/graph_capture.h"
#include "engine/stream.h"

namespace gpusim {
namespace {

struct FindArgs {
  const char* function = "";
  cudnnHandle_t handle = nullptr;
  Pass pass = Pass::forward;
  ConvolutionInputs inputs = {};
  const cudnnTensorStruct* y = nullptr;
  int requested = 0;
  int* returned = nullptr;
  std::size_t workspace_limit = ~std::size_t{0};
};

// What a search that really runs the algorithms leaves in the result: anything.
struct Scratch {
  void* data = nullptr;
  StridedShape shape = {};
  Element type = Element::f32;
};

template <class Perf>
Perf perf_of(const ConvolutionProblem& problem, const Algorithm& algorithm, std::size_t workspace_limit) {
  Perf perf = {};
  perf.algo = static_cast<decltype(perf.algo)>(algorithm.number);
  perf.time = -1;
  perf.determinism = CUDNN_NON_DETERMINISTIC;
  perf.mathType = CUDNN_DEFAULT_MATH;
  if (refusal(problem, algorithm)) {
    perf.status = CUDNN_STATUS_NOT_SUPPORTED;
    return perf;
  }
  perf.memory = workspace_bytes(problem, algorithm);
  perf.determinism = is_deterministic(algorithm) ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  if (problem.math == CUDNN_FMA_MATH || has_tensor_cores(algorithm)) perf.mathType = problem.math;
  if (perf.memory > workspace_limit) {
    perf.status = CUDNN_STATUS_ALLOC_FAILED;
    return perf;
  }
  perf.status = CUDNN_STATUS_SUCCESS;
  perf.time = static_cast<float>(cost_ns(problem, algorithm)) * 1e-6F;
  return perf;
}

// Usable ones by time, then the others.
template <class Perf>
cudnnStatus_t find(const FindArgs& args, Perf* results, ConvolutionProblem& problem) {
  const std::string function = args.function;
  if (const auto status = check_handle(args.handle, args.function)) return status;
  if (!args.returned || !results || args.requested < 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": no room for a result");
  }
  *args.returned = 0;
  if (const auto status = describe(function, args.inputs, args.y, problem)) return status;
  std::vector<Perf> all;
  for (int number = 0; number < algorithm_count(args.pass); ++number) {
    all.push_back(perf_of<Perf>(problem, {args.pass, number}, args.workspace_limit));
  }
  std::stable_sort(all.begin(), all.end(), [](const Perf& a, const Perf& b) {
    const bool a_good = a.status == CUDNN_STATUS_SUCCESS;
    const bool b_good = b.status == CUDNN_STATUS_SUCCESS;
    return a_good != b_good ? a_good : a_good && a.time < b.time;
  });
  *args.returned = std::min(args.requested, static_cast<int>(all.size()));
  std::copy_n(all.begin(), *args.returned, results);
  return CUDNN_STATUS_SUCCESS;
}

template <class Perf>
cudnnStatus_t find(const FindArgs& args, Perf* results) {
  ConvolutionProblem problem;
  return find(args, results, problem);
}

enum class SearchMemory { its_own, the_callers };

// A search runs the algorithms and waits for them, which the handle's stream must not be capturing for; one that
// allocates is forbidden by captures of other streams too.
cudnnStatus_t check_capture(const FindArgs& args, SearchMemory memory) {
  if (const auto status = check_handle(args.handle, args.function)) return status;
  const std::lock_guard lock(simulator_lock());
  CUstream_st* stream = find_stream(args.handle->stream);
  std::optional<CaptureRefusal> refusal;
  if (stream && stream->seat.capture) {
    refusal = refuse_and_invalidate(*stream, CaptureError::unsupported,
                                    "not allowed while the handle's stream captures; the capture is invalid");
  } else if (memory == SearchMemory::its_own) {
    refusal = admit_unsafe_call();
  }
  if (!refusal) return CUDNN_STATUS_SUCCESS;
  const auto status = memory == SearchMemory::its_own ? CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                                                      : CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  return refuse(status, std::string(args.function) + ": " + refusal->text);
}

template <class Perf>
cudnnStatus_t search(const FindArgs& args, Perf* results) {
  if (const auto status = check_capture(args, SearchMemory::its_own)) return status;
  return find(args, results);
}

// The Ex functions try the algorithms on the caller's memory: the result's content is lost.
cudnnStatus_t spoil(const FindArgs& args, const Scratch& result, void* workspace) {
  const std::string function = args.function;
  if (!result.data) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, function + ": the result is a null pointer");
  if (args.workspace_limit != 0 && !workspace) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  function + ": a null workspace of " + std::to_string(args.workspace_limit) + " bytes");
  }
  const auto run = [result, function] {
    const std::vector<float> garbage(static_cast<std::size_t>(result.shape.elements()), -12345.0F);
    write_packed(result.data, result.type, result.shape, garbage, {}, "the result that the search overwrites");
  };
  return enqueue_on(*args.handle, {.what = function, .run = run});
}

cudnnStatus_t get_workspace(const char* function, cudnnHandle_t handle, const ConvolutionInputs& inputs,
                            const cudnnTensorStruct* y, const Algorithm& algorithm, std::size_t* bytes) {
  if (const auto status = check_handle(handle, function)) return status;
  if (!bytes) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, std::string(function) + ": no room for the size");
  ConvolutionProblem problem;
  if (const auto status = describe(function, inputs, y, problem)) return status;
  if (const auto refused = refusal(problem, algorithm)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, std::string(function) + ": " + name_of(algorithm) + ": " + refused->text);
  }
  *bytes = workspace_bytes(problem, algorithm);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_count(const char* function, cudnnHandle_t handle, Pass pass, int* count) {
  if (const auto status = check_handle(handle, function)) return status;
  if (!count) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, std::string(function) + ": no room for the count");
  *count = algorithm_count(pass);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return get_count("cudnnGetConvolutionForwardAlgorithmMaxCount", handle, Pass::forward, count);
}
GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return get_count("cudnnGetConvolutionBackwardDataAlgorithmMaxCount", handle, Pass::backward_data, count);
}
GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return get_count("cudnnGetConvolutionBackwardFilterAlgorithmMaxCount", handle, Pass::backward_filter, count);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y, const int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results) {
  return find(
      {"cudnnGetConvolutionForwardAlgorithm_v7", handle, Pass::forward, {x, w, convolution}, y, requested, returned},
      results);
}

GPUSIM_EXPORT cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                                 const cudnnFilterDescriptor_t w,
                                                                 const cudnnConvolutionDescriptor_t convolution,
                                                                 const cudnnTensorDescriptor_t y, const int requested,
                                                                 int* returned,
                                                                 cudnnConvolutionFwdAlgoPerf_t* results) {
  return search(
      {"cudnnFindConvolutionForwardAlgorithm", handle, Pass::forward, {x, w, convolution}, y, requested, returned},
      results);
}

GPUSIM_EXPORT cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void* x, const cudnnFilterDescriptor_t wDesc,
    const void* w, const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t yDesc, void* y,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results, void* workspace, std::size_t bytes) {
  const FindArgs args{"cudnnFindConvolutionForwardAlgorithmEx",
                      handle,
                      Pass::forward,
                      {xDesc, wDesc, convolution},
                      yDesc,
                      requested,
                      returned,
                      bytes};
  if (const auto status = check_capture(args, SearchMemory::the_callers)) return status;
  ConvolutionProblem problem;
  if (const auto status = find(args, results, problem)) return status;
  if (!x || !w) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, std::string(args.function) + ": x or w is null");
  return spoil(args, {y, shape_of(problem.y), problem.type}, workspace);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algo,
    std::size_t* bytes) {
  return get_workspace("cudnnGetConvolutionForwardWorkspaceSize", handle, {x, w, convolution}, y, {Pass::forward, algo},
                       bytes);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx, const int requested,
    int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return find({"cudnnGetConvolutionBackwardDataAlgorithm_v7",
               handle,
               Pass::backward_data,
               {dx, w, convolution},
               dy,
               requested,
               returned},
              results);
}

GPUSIM_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx, const int requested,
    int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return search({"cudnnFindConvolutionBackwardDataAlgorithm",
                 handle,
                 Pass::backward_data,
                 {dx, w, convolution},
                 dy,
                 requested,
                 returned},
                results);
}

GPUSIM_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnTensorDescriptor_t dyDesc,
    const void* dy, const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dxDesc, void* dx,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results, void* workspace,
    std::size_t bytes) {
  const FindArgs args{"cudnnFindConvolutionBackwardDataAlgorithmEx",
                      handle,
                      Pass::backward_data,
                      {dxDesc, wDesc, convolution},
                      dyDesc,
                      requested,
                      returned,
                      bytes};
  if (const auto status = check_capture(args, SearchMemory::the_callers)) return status;
  ConvolutionProblem problem;
  if (const auto status = find(args, results, problem)) return status;
  if (!w || !dy) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, std::string(args.function) + ": w or dy is null");
  return spoil(args, {dx, shape_of(problem.x), problem.type}, workspace);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algo, std::size_t* bytes) {
  return get_workspace("cudnnGetConvolutionBackwardDataWorkspaceSize", handle, {dx, w, convolution}, dy,
                       {Pass::backward_data, algo}, bytes);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw, const int requested,
    int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return find({"cudnnGetConvolutionBackwardFilterAlgorithm_v7",
               handle,
               Pass::backward_filter,
               {x, dw, convolution},
               dy,
               requested,
               returned},
              results);
}

GPUSIM_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw, const int requested,
    int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return search({"cudnnFindConvolutionBackwardFilterAlgorithm",
                 handle,
                 Pass::backward_filter,
                 {x, dw, convolution},
                 dy,
                 requested,
                 returned},
                results);
}

GPUSIM_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void* x, const cudnnTensorDescriptor_t dyDesc,
    const void* dy, const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dwDesc, void* dw,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results, void* workspace,
    std::size_t bytes) {
  const FindArgs args{"cudnnFindConvolutionBackwardFilterAlgorithmEx",
                      handle,
                      Pass::backward_filter,
                      {xDesc, dwDesc, convolution},
                      dyDesc,
                      requested,
                      returned,
                      bytes};
  if (const auto status = check_capture(args, SearchMemory::the_callers)) return status;
  ConvolutionProblem problem;
  if (const auto status = find(args, results, problem)) return status;
  if (!x || !dy) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, std::string(args.function) + ": x or dy is null");
  return spoil(args, {dw, shape_of(problem.w), problem.type}, workspace);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, std::size_t* bytes) {
  return get_workspace("cudnnGetConvolutionBackwardFilterWorkspaceSize", handle, {x, dw, convolution}, dy,
                       {Pass::backward_filter, algo}, bytes);
}
