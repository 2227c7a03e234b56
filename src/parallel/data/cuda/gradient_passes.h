// Passes over flat gradients that the exchanges of replicas are made of. All on the compute stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cuda/cuda_device.h"
#include "core/dtype.h"

namespace trifold::cuda {

void add_to(float* sum, const float* term, std::int64_t elements, const CudaDevice& device);
void scale(float* x, float factor, std::int64_t elements, const CudaDevice& device);

// To 16 bits, rounded to the nearest; zeros from `elements` to `padded`.
void round_to_half(DType half, const float* from, std::byte* to, std::int64_t elements, std::int64_t padded,
                   const CudaDevice& device);
void widen_half(DType half, const std::byte* from, float* to, std::int64_t elements, const CudaDevice& device);

// Entries of a gradient by their indices, of which none comes twice.
struct ChosenEntries {
  const float* values = nullptr;
  const std::int32_t* indices = nullptr;
  std::int64_t count = 0;
};
void clear_chosen(const ChosenEntries& chosen, float* gradient, const CudaDevice& device);
void add_chosen(const ChosenEntries& chosen, float* gradient, const CudaDevice& device);

}  // namespace trifold::cuda
