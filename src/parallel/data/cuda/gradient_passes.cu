#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "parallel/data/cuda/gradient_passes.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFloats = Pack<float>::kCount;

struct Sum {
  __device__ __forceinline__ float operator()(float left, float right) const { return left + right; }
};
__global__ void __launch_bounds__(kThreads)
    add_gradients(bool packed, std::int64_t elements, const float* term, float* sum) {
  map_elements(Sum{}, packed, elements, sum, sum, term);
}

struct Multiple {
  float factor;
  __device__ __forceinline__ float operator()(float x) const { return factor * x; }
};
__global__ void __launch_bounds__(kThreads)
    scale_gradients(Multiple multiple, bool packed, std::int64_t elements, float* x) {
  map_elements(multiple, packed, elements, x, x);
}

// Four at a time, which is as many floats as one load moves, if `packed`.
template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    convert(bool packed, std::int64_t elements, std::int64_t padded, const From* from, To* to) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t in_packs = packed ? elements / kFloats * kFloats : 0;
  for (std::int64_t i = thread * kFloats; i < in_packs; i += threads * kFloats) {
    float values[kFloats];
    load_floats(from + i, values);
    store_floats(to + i, values);
  }
  for (std::int64_t i = in_packs + thread; i < padded; i += threads)
    to[i] = i < elements ? from_float<To>(to_float(from[i])) : from_float<To>(0.0f);
}

__global__ void __launch_bounds__(kThreads) clear_entries(ChosenEntries chosen, float* gradient) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < chosen.count;
       i += std::int64_t{gridDim.x} * kThreads)
    gradient[chosen.indices[i]] = 0;
}

__global__ void __launch_bounds__(kThreads) add_entries(ChosenEntries chosen, float* gradient) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < chosen.count;
       i += std::int64_t{gridDim.x} * kThreads)
    gradient[chosen.indices[i]] += chosen.values[i];
}

unsigned blocks_of_packs(std::int64_t elements, const CudaDevice& device) {
  return blocks_for((elements + kFloats - 1) / kFloats, kThreads, device);
}

}  // namespace

void add_to(float* sum, const float* term, std::int64_t elements, const CudaDevice& device) {
  if (elements == 0) return;
  add_gradients<<<blocks_of_packs(elements, device), kThreads, 0, device.compute()>>>(aligned_for_packs(sum, term),
                                                                                      elements, term, sum);
  check_launch("add_gradients");
}

void scale(float* x, float factor, std::int64_t elements, const CudaDevice& device) {
  if (elements == 0) return;
  scale_gradients<<<blocks_of_packs(elements, device), kThreads, 0, device.compute()>>>(
      Multiple{factor}, aligned_for_packs(x), elements, x);
  check_launch("scale_gradients");
}

void round_to_half(DType half, const float* from, std::byte* to, std::int64_t elements, std::int64_t padded,
                   const CudaDevice& device) {
  if (padded == 0) return;
  with_element(half, [&](auto element) {
    using T = typename decltype(element)::type;
    convert<<<blocks_of_packs(padded, device), kThreads, 0, device.compute()>>>(aligned_for_packs(from, to), elements,
                                                                                padded, from, reinterpret_cast<T*>(to));
    check_launch("convert");
  });
}

void widen_half(DType half, const std::byte* from, float* to, std::int64_t elements, const CudaDevice& device) {
  if (elements == 0) return;
  with_element(half, [&](auto element) {
    using T = typename decltype(element)::type;
    convert<<<blocks_of_packs(elements, device), kThreads, 0, device.compute()>>>(
        aligned_for_packs(from, to), elements, elements, reinterpret_cast<const T*>(from), to);
    check_launch("convert");
  });
}

void clear_chosen(const ChosenEntries& chosen, float* gradient, const CudaDevice& device) {
  if (chosen.count == 0) return;
  clear_entries<<<blocks_for(chosen.count, kThreads, device), kThreads, 0, device.compute()>>>(chosen, gradient);
  check_launch("clear_entries");
}

void add_chosen(const ChosenEntries& chosen, float* gradient, const CudaDevice& device) {
  if (chosen.count == 0) return;
  add_entries<<<blocks_for(chosen.count, kThreads, device), kThreads, 0, device.compute()>>>(chosen, gradient);
  check_launch("add_entries");
}

}  // namespace trifold::cuda
