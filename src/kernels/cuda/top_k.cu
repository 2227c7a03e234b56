#include <cub/device/device_radix_sort.cuh>
#include <limits>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/top_k.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMagnitudeBits = 31;

// Floats without their sign sort like the integers of the same bits.
__global__ void __launch_bounds__(kThreads) make_keys(const float* __restrict__ gradient, unsigned* __restrict__ keys,
                                                      std::int32_t* __restrict__ positions, std::int64_t count) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads) {
    keys[i] = __float_as_uint(gradient[i]) & 0x7fffffffu;
    positions[i] = static_cast<std::int32_t>(i);
  }
}

__global__ void __launch_bounds__(kThreads)
    gather_values(const float* __restrict__ gradient, const std::int32_t* __restrict__ positions, std::int64_t count,
                  std::int32_t* __restrict__ indices, float* __restrict__ values) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads) {
    const std::int32_t position = positions[i];
    indices[i] = position;
    values[i] = gradient[position];
  }
}

}  // namespace

TopK::TopK(const CudaDevice& device, std::int64_t elements) : device_(device), elements_(elements) {
  TRIFOLD_CHECK(elements > 0 && elements <= std::numeric_limits<std::int32_t>::max(), "top-k of {} entries", elements);
  entries_bytes_ = (static_cast<std::size_t>(elements) * sizeof(unsigned) + 255) / 256 * 256;
  device.make_current();
  TRIFOLD_CUDA(cub::DeviceRadixSort::SortPairsDescending(
      nullptr, sort_bytes_, static_cast<const unsigned*>(nullptr), static_cast<unsigned*>(nullptr),
      static_cast<const std::int32_t*>(nullptr), static_cast<std::int32_t*>(nullptr),
      static_cast<std::int32_t>(elements), 0, kMagnitudeBits));
}

void TopK::select_largest(const Args& args) const {
  TRIFOLD_CHECK(args.k > 0 && args.k <= elements_, "the {} largest of {} entries", args.k, elements_);
  auto* keys = reinterpret_cast<unsigned*>(args.workspace);
  auto* sorted_keys = reinterpret_cast<unsigned*>(args.workspace + entries_bytes_);
  auto* positions = reinterpret_cast<std::int32_t*>(args.workspace + 2 * entries_bytes_);
  auto* sorted_positions = reinterpret_cast<std::int32_t*>(args.workspace + 3 * entries_bytes_);
  const cudaStream_t stream = device_.compute();
  make_keys<<<blocks_for(elements_, kThreads, device_), kThreads, 0, stream>>>(args.gradient, keys, positions,
                                                                               elements_);
  check_launch("make_keys");
  std::size_t bytes = sort_bytes_;
  TRIFOLD_CUDA(cub::DeviceRadixSort::SortPairsDescending(
      args.workspace + 4 * entries_bytes_, bytes, keys, sorted_keys, positions, sorted_positions,
      static_cast<std::int32_t>(elements_), 0, kMagnitudeBits, stream));
  gather_values<<<blocks_for(args.k, kThreads, device_), kThreads, 0, stream>>>(args.gradient, sorted_positions, args.k,
                                                                                args.indices, args.values);
  check_launch("gather_values");
}

}  // namespace trifold::cuda
