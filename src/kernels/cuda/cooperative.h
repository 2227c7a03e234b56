// Cooperative launches: grids whose blocks are all on the GPU at once, so that they may wait for each other. The host's
// side; cooperative.cuh is where they wait.
#pragma once

#include <utility>

#include <cuda_runtime.h>

#include "core/cuda/cuda_check.h"
#include "core/cuda/cuda_device.h"

namespace trifold::cuda {

// Where the blocks of a grid meet; in device memory, zero at first. A launch leaves it ready for the next.
struct GridMeeting {
  unsigned arrived;
  unsigned meetings;  // so far; wraps around
};

// How many blocks of the kernel the GPU holds at once: the largest grid.
template <class Kernel>
int resident_blocks(Kernel kernel, int threads, const CudaDevice& device) {
  device.make_current();
  int blocks = 0;
  TRIFOLD_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
  return blocks * device.multiprocessors();
}

struct GridShape {
  int blocks = 1;
  int threads = 1;
};
template <class... Parameters, class... Arguments>
void launch_cooperatively(void (*kernel)(Parameters...), GridShape shape, cudaStream_t stream,
                          Arguments&&... arguments) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  TRIFOLD_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

}  // namespace trifold::cuda
