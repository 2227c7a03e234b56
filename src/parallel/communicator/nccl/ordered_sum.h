// Sums of what several ranks give, added in float in the order of ranks and rounded once: the same bits in every run,
// and on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cuda/cuda_device.h"
#include "core/dtype.h"

namespace trifold::cuda {

inline constexpr std::size_t kMostTerms = 128;

// What one rank gives: some elements of each run of the sum. Counts are of elements.
struct SumTerm {
  const std::byte* from = nullptr;
  std::int64_t from_run = 0;  // from one run to the next
  std::int64_t begin = 0;     // of a run of the sum
  std::int64_t end = 0;
};

struct OrderedSum {
  DType dtype = DType::f32;  // of terms and sum
  std::span<const SumTerm> terms;
  std::int64_t runs = 1;
  std::int64_t run_elements = 0;
  std::byte* to = nullptr;  // [runs, run_elements]; may be one of the terms, place by place
};

void sum_in_order(const OrderedSum& sum, const CudaDevice& device);  // on the compute stream

}  // namespace trifold::cuda
