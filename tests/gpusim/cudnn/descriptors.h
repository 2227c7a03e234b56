// The descriptors of cuDNN. They are never freed, so the use of a destroyed one is seen.
#pragma once

#include <array>
#include <optional>
#include <string>

#include <cudnn.h>

#include "cublas/strided_memory.h"

using DescriptorDims = std::array<int, CUDNN_DIM_MAX>;

struct cudnnTensorStruct {
  bool alive = true;
  int rank = 0;  // 0: not set yet
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  DescriptorDims dims = {};     // n, c, then space
  DescriptorDims strides = {};  // in elements
};

struct cudnnFilterStruct {
  bool alive = true;
  int rank = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  DescriptorDims dims = {};  // k, c / groups, then space
};

struct cudnnConvolutionStruct {
  bool alive = true;
  int rank = 0;  // of space
  DescriptorDims pad = {};
  DescriptorDims stride = {};
  DescriptorDims dilation = {};
  cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  cudnnReorderType_t reorder = CUDNN_DEFAULT_REORDER;
  int groups = 1;
};

struct cudnnActivationStruct {
  bool alive = true;
  bool set = false;
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
};

namespace gpusim {

// CUDNN_STATUS_SUCCESS when the descriptor can be used. `what`: "xDesc".
cudnnStatus_t check_set(const std::string& function, const char* what, const cudnnTensorStruct* tensor);
cudnnStatus_t check_set(const std::string& function, const char* what, const cudnnFilterStruct* filter);
cudnnStatus_t check_set(const std::string& function, const char* what, const cudnnConvolutionStruct* convolution);
cudnnStatus_t check_set(const std::string& function, const char* what, const cudnnActivationStruct* activation);

std::optional<Element> element_of(cudnnDataType_t type);
std::string name_of(cudnnDataType_t type);

// The whole tensor or filter, n first; ranks below five are filled up in front.
StridedShape shape_of(const cudnnTensorStruct& tensor);
StridedShape shape_of(const cudnnFilterStruct& filter);

// Whether the strides are those of a packed tensor in this format (dimensions of one element have any stride).
bool is_packed(const cudnnTensorStruct& tensor, cudnnTensorFormat_t format);
// Whether the images, wherever they are, are packed.
bool is_image_packed(const cudnnTensorStruct& tensor, cudnnTensorFormat_t format);
// Whether the maps (the space of one channel), wherever they are, are packed.
bool is_map_packed(const cudnnTensorStruct& tensor);

}  // namespace gpusim
