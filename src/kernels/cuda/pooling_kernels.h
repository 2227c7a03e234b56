// The two ways to pool, each for one memory layout: channels_last for NHWC, planar for NCHW. Backward gathers: what
// belongs to an element of dx is added up by one thread, in a fixed order.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/pooling.cuh"

namespace trifold::cuda {

struct PoolForwardArgs {
  PoolKind kind;
  DType dtype;
  Windows windows;
  std::int64_t samples, channels;
  const void* x;
  void* y;
  std::uint8_t* argmax;  // or null
};

struct PoolBackwardArgs {
  PoolKind kind;
  DType dtype;
  Windows windows;
  std::int64_t samples, channels;
  const void* dy;
  const std::uint8_t* argmax;  // max only
  const void* y;               // or null: a relu that is undone where y <= 0
  void* dx;
};

void pool_channels_last(const PoolForwardArgs& args, const CudaDevice& device, cudaStream_t stream);
void unpool_channels_last(const PoolBackwardArgs& args, const CudaDevice& device, cudaStream_t stream);

// False where an image row is too wide for shared memory; as one channel, channels_last takes it.
bool pool_planar(const PoolForwardArgs& args, const CudaDevice& device, cudaStream_t stream);
bool unpool_planar(const PoolBackwardArgs& args, const CudaDevice& device, cudaStream_t stream);

}  // namespace trifold::cuda
