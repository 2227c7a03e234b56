// Making and setting tensor, filter and activation descriptors.
#include <algorithm>

#include "cudnn/descriptors.h"
#include "cudnn/handle.h"

namespace gpusim {
namespace {

constexpr int kLeastRank = 3;

template <class Descriptor>
cudnnStatus_t create(const char* function, Descriptor** out) {
  if (!out) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, std::string(function) + ": the result pointer is null");
  *out = new Descriptor;
  return CUDNN_STATUS_SUCCESS;
}

template <class Descriptor>
cudnnStatus_t check_alive(const char* function, const Descriptor* descriptor) {
  const std::string name = function;
  if (!descriptor) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, name + ": the descriptor is null");
  if (!descriptor->alive) return refuse(CUDNN_STATUS_BAD_PARAM, name + ": the descriptor was destroyed");
  return CUDNN_STATUS_SUCCESS;
}

template <class Descriptor>
cudnnStatus_t destroy(const char* function, Descriptor* descriptor) {
  if (const auto status = check_alive(function, descriptor)) return status;
  descriptor->alive = false;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_type(const char* function, cudnnDataType_t type) {
  if (element_of(type)) return CUDNN_STATUS_SUCCESS;
  if (type < CUDNN_DATA_FLOAT || type > CUDNN_DATA_COMPLEX_FP64) {
    return refuse(CUDNN_STATUS_BAD_PARAM, std::string(function) + ": no such data type");
  }
  return not_simulated(std::string(function) + ": " + name_of(type));
}

cudnnStatus_t check_format(const char* function, cudnnTensorFormat_t format) {
  if (format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC) return CUDNN_STATUS_SUCCESS;
  if (format == CUDNN_TENSOR_NCHW_VECT_C) return not_simulated(std::string(function) + ": CUDNN_TENSOR_NCHW_VECT_C");
  return refuse(CUDNN_STATUS_BAD_PARAM, std::string(function) + ": no such format");
}

cudnnStatus_t check_dims(const char* function, int rank, const int* dims) {
  const std::string name = function;
  if (!dims) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, name + ": the dimensions are null");
  if (rank < kLeastRank || rank > CUDNN_DIM_MAX) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, name + ": " + std::to_string(rank) + " dimensions");
  }
  if (rank > kMaxDims) return not_simulated(name + ": " + std::to_string(rank) + " dimensions");
  long long elements = 1;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] < 1) {
      return refuse(CUDNN_STATUS_BAD_PARAM,
                    name + ": dimension " + std::to_string(d) + " is " + std::to_string(dims[d]));
    }
    elements *= dims[d];
    if (elements > (1LL << 31) - 1) return refuse(CUDNN_STATUS_NOT_SUPPORTED, name + ": more than 2^31 - 1 elements");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_tensor(const char* function, cudnnTensorStruct* tensor, cudnnDataType_t type, int rank,
                         const int* dims, const int* strides) {
  if (const auto status = check_alive(function, tensor)) return status;
  if (const auto status = check_type(function, type)) return status;
  if (const auto status = check_dims(function, rank, dims)) return status;
  for (int d = 0; d < rank; ++d) {
    if (strides[d] < 1) {
      return refuse(CUDNN_STATUS_BAD_PARAM,
                    std::string(function) + ": stride " + std::to_string(d) + " is " + std::to_string(strides[d]));
    }
  }
  tensor->type = type;
  tensor->rank = rank;
  std::copy_n(dims, rank, tensor->dims.begin());
  std::copy_n(strides, rank, tensor->strides.begin());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_packed_tensor(const char* function, cudnnTensorStruct* tensor, cudnnTensorFormat_t format,
                                cudnnDataType_t type, int rank, const int* dims) {
  if (const auto status = check_format(function, format)) return status;
  if (const auto status = check_dims(function, rank, dims)) return status;
  cudnnFilterStruct packed;  // whose strides follow from the format
  packed.rank = rank;
  packed.format = format;
  std::copy_n(dims, rank, packed.dims.begin());
  const auto shape = shape_of(packed);
  int strides[CUDNN_DIM_MAX] = {};
  for (int d = 0; d < rank; ++d) {
    strides[d] = static_cast<int>(shape.strides[static_cast<std::size_t>(d + kMaxDims - rank)]);
  }
  return set_tensor(function, tensor, type, rank, dims, strides);
}

cudnnStatus_t set_filter(const char* function, cudnnFilterStruct* filter, cudnnDataType_t type,
                         cudnnTensorFormat_t format, int rank, const int* dims) {
  if (const auto status = check_alive(function, filter)) return status;
  if (const auto status = check_type(function, type)) return status;
  if (const auto status = check_format(function, format)) return status;
  if (const auto status = check_dims(function, rank, dims)) return status;
  filter->type = type;
  filter->format = format;
  filter->rank = rank;
  std::copy_n(dims, rank, filter->dims.begin());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_rank(const char* function, int rank) {
  if (rank == 4) return CUDNN_STATUS_SUCCESS;
  return refuse(CUDNN_STATUS_BAD_PARAM,
                std::string(function) + ": the descriptor has " + std::to_string(rank) + " dimensions, not 4");
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create("cudnnCreateTensorDescriptor", tensor);
}
GPUSIM_EXPORT cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy("cudnnDestroyTensorDescriptor", tensor);
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                                       cudnnDataType_t type, int n, int c, int h, int w) {
  const int dims[] = {n, c, h, w};
  return set_packed_tensor("cudnnSetTensor4dDescriptor", tensor, format, type, 4, dims);
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int n,
                                                         int c, int h, int w, int n_stride, int c_stride, int h_stride,
                                                         int w_stride) {
  const int dims[] = {n, c, h, w};
  const int strides[] = {n_stride, c_stride, h_stride, w_stride};
  return set_tensor("cudnnSetTensor4dDescriptorEx", tensor, type, 4, dims, strides);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t tensor, cudnnDataType_t* type,
                                                       int* n, int* c, int* h, int* w, int* n_stride, int* c_stride,
                                                       int* h_stride, int* w_stride) {
  const char* function = "cudnnGetTensor4dDescriptor";
  if (const auto status = check_set(function, "tensorDesc", tensor)) return status;
  if (const auto status = check_rank(function, tensor->rank)) return status;
  *type = tensor->type;
  int* const dims[] = {n, c, h, w};
  int* const strides[] = {n_stride, c_stride, h_stride, w_stride};
  for (std::size_t d = 0; d < 4; ++d) {
    *dims[d] = tensor->dims[d];
    *strides[d] = tensor->strides[d];
  }
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int rank,
                                                       const int dims[], const int strides[]) {
  const char* function = "cudnnSetTensorNdDescriptor";
  if (!strides) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, std::string(function) + ": the strides are null");
  return set_tensor(function, tensor, type, rank, dims, strides);
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                                         cudnnDataType_t type, int rank, const int dims[]) {
  return set_packed_tensor("cudnnSetTensorNdDescriptorEx", tensor, format, type, rank, dims);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensor, int requested,
                                                       cudnnDataType_t* type, int* rank, int dims[], int strides[]) {
  if (const auto status = check_set("cudnnGetTensorNdDescriptor", "tensorDesc", tensor)) return status;
  *type = tensor->type;
  *rank = tensor->rank;
  const int count = std::min(requested, tensor->rank);
  std::copy_n(tensor->dims.begin(), count, dims);
  std::copy_n(tensor->strides.begin(), count, strides);
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t tensor, std::size_t* bytes) {
  if (const auto status = check_set("cudnnGetTensorSizeInBytes", "tensorDesc", tensor)) return status;
  *bytes = static_cast<std::size_t>(shape_of(*tensor).extent()) * bytes_of(*element_of(tensor->type));
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return create("cudnnCreateFilterDescriptor", filter);
}
GPUSIM_EXPORT cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy("cudnnDestroyFilterDescriptor", filter);
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                                       cudnnTensorFormat_t format, int k, int c, int h, int w) {
  const int dims[] = {k, c, h, w};
  return set_filter("cudnnSetFilter4dDescriptor", filter, type, format, 4, dims);
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                                       cudnnTensorFormat_t format, int rank, const int dims[]) {
  return set_filter("cudnnSetFilterNdDescriptor", filter, type, format, rank, dims);
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetFilter4dDescriptor(const cudnnFilterDescriptor_t filter, cudnnDataType_t* type,
                                                       cudnnTensorFormat_t* format, int* k, int* c, int* h, int* w) {
  const char* function = "cudnnGetFilter4dDescriptor";
  if (const auto status = check_set(function, "filterDesc", filter)) return status;
  if (const auto status = check_rank(function, filter->rank)) return status;
  *type = filter->type;
  *format = filter->format;
  int* const dims[] = {k, c, h, w};
  for (std::size_t d = 0; d < 4; ++d) *dims[d] = filter->dims[d];
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filter, int requested,
                                                       cudnnDataType_t* type, cudnnTensorFormat_t* format, int* rank,
                                                       int dims[]) {
  if (const auto status = check_set("cudnnGetFilterNdDescriptor", "filterDesc", filter)) return status;
  *type = filter->type;
  *format = filter->format;
  *rank = filter->rank;
  std::copy_n(filter->dims.begin(), std::min(requested, filter->rank), dims);
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t filter, std::size_t* bytes) {
  if (const auto status = check_set("cudnnGetFilterSizeInBytes", "filterDesc", filter)) return status;
  *bytes = static_cast<std::size_t>(shape_of(*filter).elements()) * bytes_of(*element_of(filter->type));
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activation) {
  return create("cudnnCreateActivationDescriptor", activation);
}
GPUSIM_EXPORT cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) {
  return destroy("cudnnDestroyActivationDescriptor", activation);
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                                         cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                                         double coefficient) {
  const char* function = "cudnnSetActivationDescriptor";
  if (const auto status = check_alive(function, activation)) return status;
  if (mode < CUDNN_ACTIVATION_SIGMOID || mode > CUDNN_ACTIVATION_SWISH || nan < CUDNN_NOT_PROPAGATE_NAN ||
      nan > CUDNN_PROPAGATE_NAN) {
    return refuse(CUDNN_STATUS_BAD_PARAM, std::string(function) + ": no such mode or NaN option");
  }
  activation->mode = mode;
  activation->nan = nan;
  activation->coefficient = coefficient;
  activation->set = true;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t activation,
                                                         cudnnActivationMode_t* mode, cudnnNanPropagation_t* nan,
                                                         double* coefficient) {
  if (const auto status = check_set("cudnnGetActivationDescriptor", "activationDesc", activation)) return status;
  *mode = activation->mode;
  *nan = activation->nan;
  *coefficient = activation->coefficient;
  return CUDNN_STATUS_SUCCESS;
}
