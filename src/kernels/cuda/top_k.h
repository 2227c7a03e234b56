// The entries of a gradient that matter most, for exchanges that send only those: the k of largest magnitude, each with
// its index. Built on CUB; a call allocates nothing and waits for nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cuda/cuda_device.h"

namespace trifold::cuda {

class TopK {
 public:
  // For gradients of so many (below 2^31) entries.
  TopK(const CudaDevice& device, std::int64_t elements);

  std::size_t workspace_bytes() const { return 4 * entries_bytes_ + sort_bytes_; }

  // values[i] = gradient[indices[i]], magnitudes falling; of equal ones the lower index first. NaN counts as largest.
  struct Args {
    const float* gradient = nullptr;  // [elements]
    std::int64_t k = 0;
    float* values = nullptr;          // [k]
    std::int32_t* indices = nullptr;  // [k]
    std::byte* workspace = nullptr;   // 64-byte aligned
  };
  void select_largest(const Args& args) const;  // on the compute stream

 private:
  const CudaDevice& device_;
  std::int64_t elements_;
  std::size_t entries_bytes_ = 0;  // of a number for each entry
  std::size_t sort_bytes_ = 0;     // that CUB wants besides
};

}  // namespace trifold::cuda
