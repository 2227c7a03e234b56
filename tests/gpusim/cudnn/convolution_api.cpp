// The convolutions themselves: forward, both gradients, and forward with bias and activation.
#include <algorithm>
#include <cmath>

#include "cudnn/algorithms.h"
#include "cudnn/handle.h"

namespace gpusim {
namespace {

constexpr Address kWorkspaceAlignment = 16;

// One convolution, checked: a value that can be run many times.
struct Convolution {
  ConvolutionProblem problem = {};
  Algorithm algorithm = {};
  std::string function;
  const void* x = nullptr;
  const void* w = nullptr;
  const void* dy = nullptr;
  void* result = nullptr;
  Blend blend = {};
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

struct BiasActivation {
  const void* bias = nullptr;
  const void* z = nullptr;
  float z_factor = 0;
  bool relu = true;
  bool propagate_nan = false;
};

struct Pointer {
  const char* name = "";
  const void* value = nullptr;
};

cudnnStatus_t check_pointers(const std::string& function, Element type, std::initializer_list<Pointer> pointers) {
  for (const auto& pointer : pointers) {
    if (!pointer.value) {
      return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, function + ": " + pointer.name + " is a null pointer");
    }
    if (reinterpret_cast<Address>(pointer.value) % bytes_of(type) != 0) {
      report(Finding::misaligned, function + ": " + pointer.name + " at " +
                                      hex(reinterpret_cast<Address>(pointer.value)) +
                                      " is not aligned to its elements (" + name_of(type) + ")");
      return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t take_factor(const std::string& function, const char* name, const void* pointer, float& value) {
  if (!pointer) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, function + ": " + name + " is a null pointer");
  if (is_device_pointer(pointer)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": " + name + " lies on the device; cuDNN reads it on the host");
  }
  std::memcpy(&value, pointer, sizeof value);
  return CUDNN_STATUS_SUCCESS;
}

struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

cudnnStatus_t take_algorithm(Convolution& convolution, const Algorithm& algorithm, const Workspace& workspace) {
  const std::string name = convolution.function + ": " + name_of(algorithm);
  if (const auto refused = refusal(convolution.problem, algorithm)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, name + ": " + refused->text);
  }
  const std::size_t needed = workspace_bytes(convolution.problem, algorithm);
  if (needed > workspace.bytes || (needed > 0 && !workspace.data)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, name + " needs " + std::to_string(needed) + " bytes of workspace, " +
                                              std::to_string(workspace.data ? workspace.bytes : 0) + " were given");
  }
  if (reinterpret_cast<Address>(workspace.data) % kWorkspaceAlignment != 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                  convolution.function + ": the workspace is not aligned to 16 bytes");
  }
  convolution.algorithm = algorithm;
  convolution.workspace = workspace.data;
  convolution.workspace_bytes = needed;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t take_blend(Convolution& convolution, const void* alpha, const void* beta) {
  if (const auto status = take_factor(convolution.function, "alpha", alpha, convolution.blend.alpha)) return status;
  return take_factor(convolution.function, "beta", beta, convolution.blend.beta);
}

// With CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION the tensor cores get float inputs as f16.
std::vector<float> read_input(const Convolution& convolution, const void* pointer, const StridedShape& shape,
                              const char* what) {
  auto values = read_packed(pointer, convolution.problem.type, shape, what);
  if (convolution.problem.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION && has_tensor_cores(convolution.algorithm)) {
    for (auto& value : values) value = rounded_to(Element::f16, value);
  }
  return values;
}

void mirror(const Convolution& convolution, std::vector<float>& filter) {
  if (!convolution.problem.flipped) return;
  const auto map = static_cast<std::ptrdiff_t>(convolution.problem.shape.r) * convolution.problem.shape.s;
  for (auto at = filter.begin(); at != filter.end(); at += map) std::reverse(at, at + map);
}

std::vector<float> run_sums(const Convolution& convolution) {
  const auto& problem = convolution.problem;
  if (!scribble(convolution.workspace, convolution.workspace_bytes, "workspace")) return {};
  std::vector<float> x;
  std::vector<float> w;
  std::vector<float> dy;
  if (convolution.x) {
    x = read_input(convolution, convolution.x, shape_of(problem.x), "x");
    if (x.empty()) return {};
  }
  if (convolution.w) {
    w = read_input(convolution, convolution.w, shape_of(problem.w), "w");
    if (w.empty()) return {};
    mirror(convolution, w);
  }
  if (convolution.dy) {
    dy = read_input(convolution, convolution.dy, shape_of(problem.y), "dy");
    if (dy.empty()) return {};
  }
  switch (convolution.algorithm.pass) {
    case Pass::forward:
      return convolve(problem.shape, x, w);
    case Pass::backward_data:
      return input_gradient(problem.shape, w, dy);
    case Pass::backward_filter: {
      auto dw = filter_gradient(problem.shape, x, dy);
      mirror(convolution, dw);
      return dw;
    }
  }
  return {};
}

void run(const Convolution& convolution) {
  const auto sums = run_sums(convolution);
  if (sums.empty()) return;
  const auto& problem = convolution.problem;
  const Pass pass = convolution.algorithm.pass;
  const StridedShape shape = pass == Pass::forward         ? shape_of(problem.y)
                             : pass == Pass::backward_data ? shape_of(problem.x)
                                                           : shape_of(problem.w);
  const char* what = pass == Pass::forward ? "y" : pass == Pass::backward_data ? "dx" : "dw";
  write_packed(convolution.result, problem.type, shape, sums, convolution.blend, what);
}

void run_fused(const Convolution& convolution, const BiasActivation& fused) {
  auto y = run_sums(convolution);
  if (y.empty()) return;
  const auto& problem = convolution.problem;
  const StridedShape y_shape = shape_of(problem.y);
  for (auto& value : y) value *= convolution.blend.alpha;
  if (fused.z_factor != 0) {
    const auto z = read_packed(fused.z, problem.type, y_shape, "z");
    if (z.empty()) return;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += fused.z_factor * z[i];
  }
  const auto bias = read_packed(fused.bias, problem.type,
                                {.dims = {1, 1, 1, 1, problem.shape.k}, .strides = {0, 0, 0, 0, 1}}, "bias");
  if (bias.empty()) return;
  const auto pixels = static_cast<std::size_t>(problem.shape.p) * static_cast<std::size_t>(problem.shape.q);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float value = y[i] + bias[i / pixels % bias.size()];
    const bool keep = !fused.relu || value > 0 || (std::isnan(value) && fused.propagate_nan);
    y[i] = keep ? value : 0;
  }
  write_packed(convolution.result, problem.type, y_shape, y, {}, "y");
}

std::string what_of(const Convolution& convolution) {
  const auto& shape = convolution.problem.shape;
  return convolution.function + " " + std::to_string(shape.n) + "x" + std::to_string(shape.c) + "x" +
         std::to_string(shape.h) + "x" + std::to_string(shape.w) + " " + std::to_string(shape.k) + " filters " +
         std::to_string(shape.r) + "x" + std::to_string(shape.s) + " " + name_of(convolution.problem.type);
}

cudnnStatus_t enqueue_convolution(const cudnnContext& handle, const Convolution& convolution) {
  return enqueue_on(handle, {.what = what_of(convolution),
                             .run = [convolution] { run(convolution); },
                             .cost_ns = cost_ns(convolution.problem, convolution.algorithm)});
}

// z like y, one bias a filter, and only the activations that the fused kernels have.
cudnnStatus_t check_fused(const Convolution& convolution, const cudnnTensorStruct* z, const cudnnTensorStruct* bias,
                          const cudnnActivationStruct* activation, const Algorithm& algorithm) {
  const std::string& function = convolution.function;
  if (const auto status = check_set(function, "zDesc", z)) return status;
  if (const auto status = check_set(function, "biasDesc", bias)) return status;
  if (const auto status = check_set(function, "activationDesc", activation)) return status;
  const auto& y = convolution.problem.y;
  if (z->type != y.type || z->rank != y.rank || z->dims != y.dims || z->strides != y.strides) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": zDesc and yDesc differ");
  }
  const DescriptorDims one_each = {1, convolution.problem.shape.k, 1, 1};
  if (bias->rank != 4 || bias->dims != one_each) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  function + ": the bias is not [1, " + std::to_string(convolution.problem.shape.k) + ", 1, 1]");
  }
  if (bias->type != y.type) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  function + ": the bias is " + name_of(bias->type) + ", y is " + name_of(y.type));
  }
  if (bias->strides[1] != 1 && bias->dims[1] != 1) return not_simulated(function + ": a bias that is not packed");
  if (activation->mode != CUDNN_ACTIVATION_RELU && activation->mode != CUDNN_ACTIVATION_IDENTITY) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, function + ": only the activations RELU and IDENTITY are fused");
  }
  if (activation->mode == CUDNN_ACTIVATION_IDENTITY &&
      algorithm.number != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  function + ": CUDNN_ACTIVATION_IDENTITY works with IMPLICIT_PRECOMP_GEMM only");
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                                    const cudnnTensorDescriptor_t xDesc, const void* x,
                                                    const cudnnFilterDescriptor_t wDesc, const void* w,
                                                    const cudnnConvolutionDescriptor_t convDesc,
                                                    cudnnConvolutionFwdAlgo_t algo, void* workspace,
                                                    std::size_t workspace_size, const void* beta,
                                                    const cudnnTensorDescriptor_t yDesc, void* y) {
  Convolution convolution{.function = "cudnnConvolutionForward", .x = x, .w = w, .result = y};
  if (const auto status = check_handle(handle, convolution.function.c_str())) return status;
  if (const auto status = describe(convolution.function, {xDesc, wDesc, convDesc}, yDesc, convolution.problem)) {
    return status;
  }
  if (const auto status =
          check_pointers(convolution.function, convolution.problem.type, {{"x", x}, {"w", w}, {"y", y}})) {
    return status;
  }
  if (const auto status = take_blend(convolution, alpha, beta)) return status;
  if (const auto status = take_algorithm(convolution, {Pass::forward, algo}, {workspace, workspace_size})) {
    return status;
  }
  return enqueue_convolution(*handle, convolution);
}

GPUSIM_EXPORT cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                                         const cudnnFilterDescriptor_t wDesc, const void* w,
                                                         const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                                         const cudnnConvolutionDescriptor_t convDesc,
                                                         cudnnConvolutionBwdDataAlgo_t algo, void* workspace,
                                                         std::size_t workspace_size, const void* beta,
                                                         const cudnnTensorDescriptor_t dxDesc, void* dx) {
  Convolution convolution{.function = "cudnnConvolutionBackwardData", .w = w, .dy = dy, .result = dx};
  if (const auto status = check_handle(handle, convolution.function.c_str())) return status;
  if (const auto status = describe(convolution.function, {dxDesc, wDesc, convDesc}, dyDesc, convolution.problem)) {
    return status;
  }
  if (const auto status =
          check_pointers(convolution.function, convolution.problem.type, {{"w", w}, {"dy", dy}, {"dx", dx}})) {
    return status;
  }
  if (const auto status = take_blend(convolution, alpha, beta)) return status;
  if (const auto status = take_algorithm(convolution, {Pass::backward_data, algo}, {workspace, workspace_size})) {
    return status;
  }
  return enqueue_convolution(*handle, convolution);
}

GPUSIM_EXPORT cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                                           const cudnnTensorDescriptor_t xDesc, const void* x,
                                                           const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                                           const cudnnConvolutionDescriptor_t convDesc,
                                                           cudnnConvolutionBwdFilterAlgo_t algo, void* workspace,
                                                           std::size_t workspace_size, const void* beta,
                                                           const cudnnFilterDescriptor_t dwDesc, void* dw) {
  Convolution convolution{.function = "cudnnConvolutionBackwardFilter", .x = x, .dy = dy, .result = dw};
  if (const auto status = check_handle(handle, convolution.function.c_str())) return status;
  if (const auto status = describe(convolution.function, {xDesc, dwDesc, convDesc}, dyDesc, convolution.problem)) {
    return status;
  }
  if (const auto status =
          check_pointers(convolution.function, convolution.problem.type, {{"x", x}, {"dy", dy}, {"dw", dw}})) {
    return status;
  }
  if (const auto status = take_blend(convolution, alpha, beta)) return status;
  if (const auto status = take_algorithm(convolution, {Pass::backward_filter, algo}, {workspace, workspace_size})) {
    return status;
  }
  return enqueue_convolution(*handle, convolution);
}

GPUSIM_EXPORT cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, const cudnnTensorDescriptor_t xDesc, const void* x,
    const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnConvolutionDescriptor_t convDesc,
    cudnnConvolutionFwdAlgo_t algo, void* workspace, std::size_t workspace_size, const void* alpha2,
    const cudnnTensorDescriptor_t zDesc, const void* z, const cudnnTensorDescriptor_t biasDesc, const void* bias,
    const cudnnActivationDescriptor_t activationDesc, const cudnnTensorDescriptor_t yDesc, void* y) {
  Convolution convolution{.function = "cudnnConvolutionBiasActivationForward", .x = x, .w = w, .result = y};
  const std::string& function = convolution.function;
  if (const auto status = check_handle(handle, function.c_str())) return status;
  if (const auto status = describe(function, {xDesc, wDesc, convDesc}, yDesc, convolution.problem)) return status;
  const Algorithm algorithm{Pass::forward, algo};
  if (const auto status = check_fused(convolution, zDesc, biasDesc, activationDesc, algorithm)) return status;
  BiasActivation fused{.bias = bias,
                       .z = z,
                       .relu = activationDesc->mode == CUDNN_ACTIVATION_RELU,
                       .propagate_nan = activationDesc->nan == CUDNN_PROPAGATE_NAN};
  if (const auto status = take_factor(function, "alpha1", alpha1, convolution.blend.alpha)) return status;
  if (const auto status = take_factor(function, "alpha2", alpha2, fused.z_factor)) return status;
  if (const auto status =
          check_pointers(function, convolution.problem.type,
                         {{"x", x}, {"w", w}, {"bias", bias}, {"z", fused.z_factor != 0 ? z : y}, {"y", y}})) {
    return status;
  }
  if (y == x || y == w) return refuse(CUDNN_STATUS_BAD_PARAM, function + ": y is x or w; only z may be y");
  if (const auto status = take_algorithm(convolution, algorithm, {workspace, workspace_size})) return status;
  return enqueue_on(*handle, {.what = what_of(convolution),
                              .run = [convolution, fused] { run_fused(convolution, fused); },
                              .cost_ns = cost_ns(convolution.problem, algorithm)});
}
