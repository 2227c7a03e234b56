// Sums over tensors: the bias gradient and the addition of a broadcast tensor.
#include "cudnn/descriptors.h"
#include "cudnn/handle.h"

namespace gpusim {
namespace {

struct Factors {
  const void* alpha = nullptr;
  const void* beta = nullptr;
};

cudnnStatus_t take_blend(const std::string& function, const Factors& factors, Blend& blend) {
  if (!factors.alpha || !factors.beta) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, function + ": alpha or beta is a null pointer");
  }
  if (is_device_pointer(factors.alpha) || is_device_pointer(factors.beta)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": alpha or beta lies on the device; cuDNN reads it on the host");
  }
  std::memcpy(&blend.alpha, factors.alpha, sizeof blend.alpha);
  std::memcpy(&blend.beta, factors.beta, sizeof blend.beta);
  return CUDNN_STATUS_SUCCESS;
}

std::uint64_t cost_ns(const StridedShape& shape) {
  return 3000 + static_cast<std::uint64_t>(shape.elements()) / 75;
}

struct TensorAt {
  StridedShape shape = {};
  Element type = Element::f32;
  void* data = nullptr;
};

TensorAt tensor_at(const cudnnTensorStruct& tensor, const void* data) {
  return {.shape = shape_of(tensor), .type = *element_of(tensor.type), .data = const_cast<void*>(data)};
}

// Channels are the dimension after the images.
void run_bias_gradient(const TensorAt& dy, const TensorAt& db, int rank, const Blend& blend) {
  const auto values = read_packed(dy.data, dy.type, dy.shape, "dy");
  if (values.empty()) return;
  const auto channel_dim = static_cast<std::size_t>(kMaxDims - rank + 1);
  const auto channels = static_cast<std::size_t>(dy.shape.dims[channel_dim]);
  std::size_t pixels = 1;
  for (std::size_t d = channel_dim + 1; d < kMaxDims; ++d) pixels *= static_cast<std::size_t>(dy.shape.dims[d]);
  std::vector<float> sums(channels);
  for (std::size_t row = 0; row < values.size() / pixels; ++row) {
    float sum = 0;
    for (std::size_t i = 0; i < pixels; ++i) sum += values[row * pixels + i];
    sums[row % channels] += sum;
  }
  write_packed(db.data, db.type, db.shape, sums, blend, "db");
}

void run_add(const TensorAt& a, const TensorAt& c, const Blend& blend) {
  StridedShape stretched = c.shape;  // a seen with c's dimensions: stride 0 where it has one element
  for (std::size_t d = 0; d < kMaxDims; ++d) stretched.strides[d] = a.shape.dims[d] == 1 ? 0 : a.shape.strides[d];
  const void* view = claim_for_read(a.data, a.type, a.shape, "A");
  if (!view) return;
  write_packed(c.data, c.type, c.shape, widen(view, a.type, stretched), blend, "C");
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                                         const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                                         const void* beta, const cudnnTensorDescriptor_t dbDesc,
                                                         void* db) {
  const std::string function = "cudnnConvolutionBackwardBias";
  if (const auto status = check_handle(handle, function.c_str())) return status;
  if (const auto status = check_set(function, "dyDesc", dyDesc)) return status;
  if (const auto status = check_set(function, "dbDesc", dbDesc)) return status;
  DescriptorDims expected = {1, dyDesc->dims[1]};
  for (int d = 2; d < dyDesc->rank; ++d) expected[static_cast<std::size_t>(d)] = 1;
  if (dbDesc->rank != dyDesc->rank || dbDesc->dims != expected) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": db is not [1, " + std::to_string(dyDesc->dims[1]) +
                                              ", 1, 1], one for each channel of dy");
  }
  if (dbDesc->type != dyDesc->type) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  function + ": db is " + name_of(dbDesc->type) + ", dy is " + name_of(dyDesc->type));
  }
  if (!dy || !db) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, function + ": dy or db is a null pointer");
  Blend blend;
  if (const auto status = take_blend(function, {alpha, beta}, blend)) return status;
  const auto from = tensor_at(*dyDesc, dy);
  const auto to = tensor_at(*dbDesc, db);
  const int rank = dyDesc->rank;
  return enqueue_on(*handle, {.what = function,
                              .run = [from, to, rank, blend] { run_bias_gradient(from, to, rank, blend); },
                              .cost_ns = cost_ns(from.shape)});
}

GPUSIM_EXPORT cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t aDesc,
                                           const void* A, const void* beta, const cudnnTensorDescriptor_t cDesc,
                                           void* C) {
  const std::string function = "cudnnAddTensor";
  if (const auto status = check_handle(handle, function.c_str())) return status;
  if (const auto status = check_set(function, "aDesc", aDesc)) return status;
  if (const auto status = check_set(function, "cDesc", cDesc)) return status;
  if (aDesc->rank != cDesc->rank || aDesc->type != cDesc->type) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  function + ": A and C differ in their number of dimensions or their type");
  }
  for (int d = 0; d < aDesc->rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (aDesc->dims[i] != 1 && aDesc->dims[i] != cDesc->dims[i]) {
      return refuse(CUDNN_STATUS_BAD_PARAM, function + ": dimension " + std::to_string(d) + " of A is " +
                                                std::to_string(aDesc->dims[i]) + ", neither 1 nor C's " +
                                                std::to_string(cDesc->dims[i]));
    }
  }
  if (!A || !C) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, function + ": A or C is a null pointer");
  Blend blend;
  if (const auto status = take_blend(function, {alpha, beta}, blend)) return status;
  const auto from = tensor_at(*aDesc, A);
  const auto to = tensor_at(*cDesc, C);
  return enqueue_on(
      *handle,
      {.what = function, .run = [from, to, blend] { run_add(from, to, blend); }, .cost_ns = cost_ns(to.shape)});
}
