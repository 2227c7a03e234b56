#include "kernels/cuda/cuda_kernel.h"
#include "parallel/cuda/span_sum.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) add_parts(SpanSum args) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < args.elements; i += step) {
    float sum = args.parts[i];
    for (int part = 1; part < args.count; ++part) sum += args.parts[part * args.elements + i];
    args.sum[i] = sum;
  }
}

}  // namespace

void sum_span(const SpanSum& args, const CudaDevice& device) {
  add_parts<<<blocks_for(args.elements, kThreads, device), kThreads, 0, device.compute()>>>(args);
  check_launch("add_parts");
}

}  // namespace trifold::cuda
