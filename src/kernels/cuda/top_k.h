// The entries of a gradient that matter most, for synchronisation that sends only those: the k largest magnitudes, or
// all magnitudes from a threshold on, each with its index. Built on CUB; all memory is taken when the object is made,
// so a call allocates nothing and waits for nothing.
#pragma once

#include <cstdint>

#include "runtime/core/cuda/cuda_device.h"

namespace trifold::cuda {

class TopK {
 public:
  // For gradients of up to `elements` (below 2^31) entries.
  TopK(CudaDevice& device, std::int64_t elements);

  // values[i] = gradient[indices[i]], magnitudes falling; of equal ones the lower index first. NaN counts as largest.
  // k is at most `count`, which is at most what the object was made for.
  struct LargestArgs {
    const float* gradient = nullptr;
    std::int64_t count = 0;
    std::int64_t k = 0;
    float* values = nullptr;          // [k]
    std::int32_t* indices = nullptr;  // [k]
  };
  void select_largest(const LargestArgs& args, cudaStream_t stream) const;

  // Every entry with |gradient[i]| >= threshold, in the order of indices.
  struct ThresholdArgs {
    const float* gradient = nullptr;
    std::int64_t count = 0;
    float threshold = 0;
    float* values = nullptr;           // [count]: room for all
    std::int32_t* indices = nullptr;   // [count]
    std::int32_t* selected = nullptr;  // [1], device memory: how many there were
  };
  void select_from_threshold(const ThresholdArgs& args, cudaStream_t stream) const;

 private:
  std::int64_t elements_;
  std::size_t workspace_bytes_ = 0;
  int multiprocessors_;
  DeviceMemory keys_, sorted_keys_;            // [elements] u32: magnitudes as bits, which sort like the magnitudes
  DeviceMemory positions_, sorted_positions_;  // [elements] i32
  DeviceMemory workspace_;
};

}  // namespace trifold::cuda
