// Elements on the device: conversion to and from float, in which all arithmetic is done; loads and stores of packs of
// 16 bytes; and functions over flat arrays, applied element by element.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace trifold::cuda {

__device__ __forceinline__ float to_float(float x) {
  return x;
}
__device__ __forceinline__ float to_float(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// 16 bytes of elements, moved by one load or store. Both are intrinsics here: a plain load or store of a struct may be
// split by the compiler into one for each element.
template <class T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  T values[kCount];
};

template <class T>
__device__ __forceinline__ Pack<T> load_pack(const T* from) {
  const uint4 raw = __ldca(reinterpret_cast<const uint4*>(from));
  Pack<T> pack;
  __builtin_memcpy(&pack, &raw, 16);
  return pack;
}
template <class T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T>& pack) {
  uint4 raw;
  __builtin_memcpy(&raw, &pack, 16);
  __stwb(reinterpret_cast<uint4*>(to), raw);
}

// An integer of this many bytes: what one load or store moves.
template <int kBytes>
struct RawBytes;
template <>
struct RawBytes<1> {
  using type = unsigned char;
};
template <>
struct RawBytes<2> {
  using type = unsigned short;
};
template <>
struct RawBytes<4> {
  using type = unsigned;
};
template <>
struct RawBytes<8> {
  using type = uint2;
};
template <>
struct RawBytes<16> {
  using type = uint4;
};
template <int kCount, class T>
using RawElements = typename RawBytes<kCount* static_cast<int>(sizeof(T))>::type;

// kCount elements by one load, which `from` must be aligned for. The second form unpacks what was loaded before.
template <int kCount, class T>
__device__ __forceinline__ RawElements<kCount, T> load_raw(const T* from) {
  return __ldca(reinterpret_cast<const RawElements<kCount, T>*>(from));
}
template <class T, int kCount>
__device__ __forceinline__ void unpack(const RawElements<kCount, T>& raw, float (&to)[kCount]) {
  T values[kCount];
  __builtin_memcpy(values, &raw, sizeof(raw));
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = to_float(values[i]);
}
template <class T, int kCount>
__device__ __forceinline__ void load_floats(const T* from, float (&to)[kCount]) {
  unpack<T>(load_raw<kCount>(from), to);
}
template <class T, int kCount>
__device__ __forceinline__ void store_floats(T* to, const float (&from)[kCount]) {
  T values[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = from_float<T>(from[i]);
  RawElements<kCount, T> raw;
  __builtin_memcpy(&raw, values, sizeof(raw));
  __stwb(reinterpret_cast<RawElements<kCount, T>*>(to), raw);
}

// out[i] = function(in[i]...), in packs where `packed` says that every pointer is aligned for them. An output may be
// one of the inputs' memory.
template <class T, class Function, class... In>
__device__ __forceinline__ void map_elements(const Function& function, bool packed, std::int64_t elements, T* out,
                                             const In*... in) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t in_packs = packed ? elements / kPack * kPack : 0;
  for (std::int64_t i = thread * kPack; i < in_packs; i += threads * kPack) {
    float y[kPack];
    const auto apply = [&](const auto&... x) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) y[k] = function(to_float(x.values[k])...);
    };
    apply(load_pack(in + i)...);
    store_floats(out + i, y);
  }
  for (std::int64_t i = in_packs + thread; i < elements; i += threads)
    out[i] = from_float<T>(function(to_float(in[i])...));
}

}  // namespace trifold::cuda
