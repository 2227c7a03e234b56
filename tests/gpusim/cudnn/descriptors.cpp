#include "cudnn/descriptors.h"

#include "cudnn/handle.h"

namespace gpusim {
namespace {

template <class Descriptor>
cudnnStatus_t check_alive(const std::string& function, const char* what, const Descriptor* descriptor) {
  if (!descriptor) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, function + ": " + what + " is null");
  if (!descriptor->alive) return refuse(CUDNN_STATUS_BAD_PARAM, function + ": " + what + " was destroyed");
  return CUDNN_STATUS_SUCCESS;
}

template <class Descriptor>
cudnnStatus_t check_used(const std::string& function, const char* what, const Descriptor* descriptor, bool set) {
  if (const auto status = check_alive(function, what, descriptor)) return status;
  if (!set) return refuse(CUDNN_STATUS_BAD_PARAM, function + ": " + what + " was created but never set");
  return CUDNN_STATUS_SUCCESS;
}

// Strides of dimensions a, b, ... from the slowest to the fastest.
bool strides_are(const cudnnTensorStruct& tensor, const std::vector<int>& slow_to_fast) {
  int expected = 1;
  for (auto dim = slow_to_fast.rbegin(); dim != slow_to_fast.rend(); ++dim) {
    const auto d = static_cast<std::size_t>(*dim);
    if (tensor.dims[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.dims[d];
  }
  return true;
}

std::vector<int> dims_from(int first, int rank) {
  std::vector<int> dims;
  for (int d = first; d < rank; ++d) dims.push_back(d);
  return dims;
}

StridedShape padded_shape(int rank, const DescriptorDims& dims, const DescriptorDims& strides) {
  StridedShape shape;
  for (int d = 0; d < rank; ++d) {
    const auto to = static_cast<std::size_t>(d + kMaxDims - rank);
    shape.dims[to] = dims[static_cast<std::size_t>(d)];
    shape.strides[to] = strides[static_cast<std::size_t>(d)];
  }
  return shape;
}

}  // namespace

cudnnStatus_t check_set(const std::string& function, const char* what, const cudnnTensorStruct* tensor) {
  return check_used(function, what, tensor, tensor && tensor->rank > 0);
}
cudnnStatus_t check_set(const std::string& function, const char* what, const cudnnFilterStruct* filter) {
  return check_used(function, what, filter, filter && filter->rank > 0);
}
cudnnStatus_t check_set(const std::string& function, const char* what, const cudnnConvolutionStruct* convolution) {
  return check_used(function, what, convolution, convolution && convolution->rank > 0);
}
cudnnStatus_t check_set(const std::string& function, const char* what, const cudnnActivationStruct* activation) {
  return check_used(function, what, activation, activation && activation->set);
}

std::optional<Element> element_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return Element::f32;
    case CUDNN_DATA_HALF:
      return Element::f16;
    case CUDNN_DATA_BFLOAT16:
      return Element::bf16;
    default:
      return std::nullopt;
  }
}

std::string name_of(cudnnDataType_t type) {
  const auto element = element_of(type);
  return element ? name_of(*element) : "cudnnDataType_t " + std::to_string(static_cast<int>(type));
}

StridedShape shape_of(const cudnnTensorStruct& tensor) {
  return padded_shape(tensor.rank, tensor.dims, tensor.strides);
}

StridedShape shape_of(const cudnnFilterStruct& filter) {
  DescriptorDims strides = {};
  int stride = 1;
  const bool channels_last = filter.format == CUDNN_TENSOR_NHWC;
  if (channels_last) {
    strides[1] = 1;
    stride = filter.dims[1];
  }
  for (int d = filter.rank - 1; d >= (channels_last ? 2 : 1); --d) {
    strides[static_cast<std::size_t>(d)] = stride;
    stride *= filter.dims[static_cast<std::size_t>(d)];
  }
  strides[0] = stride;
  return padded_shape(filter.rank, filter.dims, strides);
}

bool is_image_packed(const cudnnTensorStruct& tensor, cudnnTensorFormat_t format) {
  if (format == CUDNN_TENSOR_NCHW) return strides_are(tensor, dims_from(1, tensor.rank));
  auto order = dims_from(2, tensor.rank);
  order.push_back(1);
  return strides_are(tensor, order);
}

bool is_packed(const cudnnTensorStruct& tensor, cudnnTensorFormat_t format) {
  int image = 1;
  for (int d = 1; d < tensor.rank; ++d) image *= tensor.dims[static_cast<std::size_t>(d)];
  return is_image_packed(tensor, format) && (tensor.dims[0] == 1 || tensor.strides[0] == image);
}

bool is_map_packed(const cudnnTensorStruct& tensor) {
  return strides_are(tensor, dims_from(2, tensor.rank));
}

}  // namespace gpusim
