#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <limits>

#include <thrust/iterator/counting_iterator.h>

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

// values = the gradient's entries at these places; `count` of them, or as many as the device's counter says.
__global__ void __launch_bounds__(kThreads)
    gather_values(const float* __restrict__ gradient, const std::int32_t* __restrict__ positions,
                  const std::int32_t* __restrict__ device_count, std::int64_t count, std::int32_t* __restrict__ indices,
                  float* __restrict__ values) {
  if (device_count != nullptr) count = *device_count;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads) {
    const std::int32_t position = positions[i];
    if (indices != nullptr) indices[i] = position;
    values[i] = gradient[position];
  }
}

struct IsLarge {
  const float* gradient;
  float threshold;
  __device__ __forceinline__ bool operator()(std::int32_t i) const { return fabsf(gradient[i]) >= threshold; }
};

unsigned blocks_of(std::int64_t items, int multiprocessors) {
  const std::int64_t wanted = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, std::int64_t{8} * multiprocessors));
}

}  // namespace

TopK::TopK(CudaDevice& device, std::int64_t elements)
    : elements_(elements), multiprocessors_(device.multiprocessors()) {
  TRIFOLD_CHECK(elements > 0 && elements <= std::numeric_limits<std::int32_t>::max(), "top-k of {} entries", elements);
  const auto count = static_cast<std::size_t>(elements);
  keys_ = DeviceMemory(device, count * sizeof(unsigned));
  sorted_keys_ = DeviceMemory(device, count * sizeof(unsigned));
  positions_ = DeviceMemory(device, count * sizeof(std::int32_t));
  sorted_positions_ = DeviceMemory(device, count * sizeof(std::int32_t));
  const auto items = static_cast<std::int32_t>(elements);
  std::size_t sort_bytes = 0, select_bytes = 0;
  TRIFOLD_CUDA(cub::DeviceRadixSort::SortPairsDescending(
      nullptr, sort_bytes, static_cast<const unsigned*>(nullptr), static_cast<unsigned*>(nullptr),
      static_cast<const std::int32_t*>(nullptr), static_cast<std::int32_t*>(nullptr), items, 0, kMagnitudeBits));
  TRIFOLD_CUDA(cub::DeviceSelect::If(nullptr, select_bytes, thrust::counting_iterator<std::int32_t>(0),
                                     static_cast<std::int32_t*>(nullptr), static_cast<std::int32_t*>(nullptr), items,
                                     IsLarge{nullptr, 0}));
  workspace_bytes_ = std::max(sort_bytes, select_bytes);
  workspace_ = DeviceMemory(device, workspace_bytes_);
}

void TopK::select_largest(const LargestArgs& args, cudaStream_t stream) const {
  TRIFOLD_CHECK(args.count <= elements_ && args.k >= 0 && args.k <= args.count,
                "the {} largest of {} entries, made for {}", args.k, args.count, elements_);
  if (args.k == 0) return;
  auto* keys = reinterpret_cast<unsigned*>(keys_.data());
  auto* positions = reinterpret_cast<std::int32_t*>(positions_.data());
  auto* sorted_positions = reinterpret_cast<std::int32_t*>(sorted_positions_.data());
  make_keys<<<blocks_of(args.count, multiprocessors_), kThreads, 0, stream>>>(args.gradient, keys, positions,
                                                                              args.count);
  check_launch("make_keys");
  std::size_t bytes = workspace_bytes_;
  TRIFOLD_CUDA(cub::DeviceRadixSort::SortPairsDescending(
      workspace_.data(), bytes, keys, reinterpret_cast<unsigned*>(sorted_keys_.data()), positions, sorted_positions,
      static_cast<std::int32_t>(args.count), 0, kMagnitudeBits, stream));
  gather_values<<<blocks_of(args.k, multiprocessors_), kThreads, 0, stream>>>(args.gradient, sorted_positions, nullptr,
                                                                              args.k, args.indices, args.values);
  check_launch("gather_values");
}

void TopK::select_from_threshold(const ThresholdArgs& args, cudaStream_t stream) const {
  TRIFOLD_CHECK(args.count <= elements_, "a selection of {} entries, made for {}", args.count, elements_);
  std::size_t bytes = workspace_bytes_;
  TRIFOLD_CUDA(cub::DeviceSelect::If(workspace_.data(), bytes, thrust::counting_iterator<std::int32_t>(0), args.indices,
                                     args.selected, static_cast<std::int32_t>(args.count),
                                     IsLarge{args.gradient, args.threshold}, stream));
  if (args.count == 0) return;
  gather_values<<<blocks_of(args.count, multiprocessors_), kThreads, 0, stream>>>(
      args.gradient, args.indices, args.selected, 0, nullptr, args.values);
  check_launch("gather_values");
}

}  // namespace trifold::cuda
