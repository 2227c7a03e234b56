// The gathering convolutions (see own_conv_shape.h) on the device: weights are laid for the matrix product once a call,
// then an implicit product or, for thin groups, direct sums. Images are NCHW.
#pragma once

#include <cuda_runtime.h>

#include "core/device.h"
#include "core/dtype.h"
#include "kernels/cuda/own_conv_shape.h"

namespace trifold::cuda {

// Forward or backward_data of one shape: its extents, and the tables of classes in device memory.
struct GatherPlan {
  GatherPlan(const Conv2dArgs& args, const ConvShape& shape, bool is_backward, Device& device);

  ConvShape shape;
  bool backward;
  GatherAxis rows, columns;
  int out_channels;      // of a group: the product's rows
  int source_channels;   // of a group
  int tile_rows;         // of the product; the laid weights are padded to whole tiles
  DeviceMemory classes;  // AxisClass of the rows, then of the columns

  bool direct() const { return shape.groups > 1 && out_channels <= 8; }
  int padded_channels() const { return (out_channels + tile_rows - 1) / tile_rows * tile_rows; }
  std::size_t laid_weight_bytes() const;  // 0 when direct
  int most_class_pixels() const;          // pixels of a sample that the largest class has
  unsigned classes_of_all_groups() const;
};

struct GatherTensors {
  DType dtype = DType::f32;
  const void* source = nullptr;
  const void* weights = nullptr;  // OIHW, of the same type
  const float* bias = nullptr;    // [O]; null: none
  bool relu = false;
  void* out = nullptr;
  float* laid_weights = nullptr;  // laid_weight_bytes(), 16-byte aligned
};

void launch_gather(const GatherPlan& plan, const GatherTensors& tensors, cudaStream_t stream);

// The two ways, one file each; launch_gather chooses.
void launch_gather_product(const GatherPlan& plan, const GatherTensors& tensors, cudaStream_t stream);
void launch_gather_direct(const GatherPlan& plan, const GatherTensors& tensors, cudaStream_t stream);

}  // namespace trifold::cuda
