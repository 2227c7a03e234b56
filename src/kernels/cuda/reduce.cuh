// Sums over a warp and over a block by shuffles.
#pragma once

namespace trifold::cuda {

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// The sum over the whole block, in every thread. kThreads is the block's size, a multiple of 32; all threads must come.
template <int kThreads, class T>
__device__ __forceinline__ T block_sum(T value) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  constexpr int kWarps = kThreads / 32;
  value = warp_sum(value);
  if constexpr (kWarps == 1) return value;
  __shared__ T partial[kWarps];
  __syncthreads();  // a second call must not overwrite what the first still reads
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  T sum = threadIdx.x % 32 < kWarps ? partial[threadIdx.x % 32] : T(0);
  return warp_sum(sum);
}

}  // namespace trifold::cuda
