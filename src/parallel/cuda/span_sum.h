// The sum of some ranks' parts, in their order, of what all have gathered.
#pragma once

#include <cstdint>

#include "runtime/core/cuda/cuda_device.h"

namespace trifold::cuda {

struct SpanSum {
  const float* parts = nullptr;  // [count, elements]
  int count = 1;
  std::int64_t elements = 0;
  float* sum = nullptr;  // [elements]
};

void sum_span(const SpanSum& args, const CudaDevice& device);  // on the compute stream

}  // namespace trifold::cuda
