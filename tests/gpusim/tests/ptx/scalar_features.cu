// What one thread can do, as nvcc compiles it for sm_75, against the host: math, integers, halves, local memory, calls.
#include <cmath>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device_array.h"

namespace {

template <class T>
__host__ __device__ T mathematics(T x) {
  const T y = x < 0 ? -x : x;
  return std::sin(x * 100) + std::cos(x) + std::exp(-y) + std::log(y + 1) + std::pow(y + T(0.1), T(1.7)) +
         std::sqrt(y) + std::erf(x) + std::tanh(x) + std::fmod(x, T(1.3)) + std::round(x) + std::floor(x) +
         std::log1p(y) + x / 3 + std::cbrt(x) + std::expm1(-y) + std::atan2(x, T(2)) + std::hypot(x, T(3));
}
template <class T>
__global__ void mathematics_kernel(T* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = mathematics(T(i - count / 2) * T(0.37));
}
template <class T>
void check_mathematics(double tolerance) {
  const int count = 1000;
  DeviceArray<T> out(count);
  mathematics_kernel<<<(count + 127) / 128, 128>>>(out.data(), count);
  const auto results = out.read();
  for (int i = 0; i < count; ++i) {
    const T expected = mathematics(T(i - count / 2) * T(0.37));
    EXPECT_NEAR(results[i], expected, tolerance * std::fmax(1.0, std::fabs(static_cast<double>(expected)))) << i;
  }
}
TEST(Scalar, FloatMathematics) {
  check_mathematics<float>(2e-6);
}
TEST(Scalar, DoubleMathematics) {
  check_mathematics<double>(1e-13);
}

__host__ __device__ long long integers(int i) {
  const long long a = (i * 2654435761LL) ^ 0x1234567890abcdefLL;
  const long long b = i % 7 == 3 ? 11 : i % 7 - 3;
  const auto u = static_cast<unsigned>(a);
  const auto s = static_cast<short>(i * 77);
  const auto c = static_cast<unsigned char>(i * 5);
  return a / b + a % b + u / 7 + u % 13 + (a >> 3) + static_cast<long long>(static_cast<unsigned long long>(a) >> 5) +
         s * s + (c >> 1) + static_cast<signed char>(c) + (u << (i & 31)) + static_cast<long long>(float(a)) +
         static_cast<unsigned>(std::fabs(double(i) * 1e6));
}
__global__ void integers_kernel(long long* out) {
  out[threadIdx.x] = integers(threadIdx.x);
}
TEST(Scalar, Integers) {
  DeviceArray<long long> out(256);
  integers_kernel<<<1, 256>>>(out.data());
  const auto results = out.read();
  for (int i = 0; i < 256; ++i) EXPECT_EQ(results[i], integers(i)) << i;
}

__global__ void intrinsics_kernel(unsigned* out) {
  const unsigned u = threadIdx.x * 2654435761U + 12345U;
  out[threadIdx.x] = __popc(u) ^ __clz(u) << 6 ^ __ffs(u) << 12 ^ __brev(u) ^ __umulhi(u, 77) ^
                     __byte_perm(u, ~u, 0x3625) ^ __funnelshift_l(u, ~u, 5) ^ __sad(u, 7, 9) ^ __popcll(u * 3ULL) << 3;
}
TEST(Scalar, IntegerIntrinsics) {
  DeviceArray<unsigned> out(64);
  intrinsics_kernel<<<1, 64>>>(out.data());
  const auto results = out.read();
  for (unsigned i = 0; i < 64; ++i) {
    const unsigned u = i * 2654435761U + 12345U;
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (u >> bit & 1U) << (31 - bit);
    const unsigned long long both = static_cast<unsigned long long>(~u) << 32 | u;
    unsigned bytes = 0;
    const unsigned selectors[] = {5, 2, 6, 3};
    for (int at = 0; at < 4; ++at) bytes |= static_cast<unsigned>(both >> (8 * selectors[at]) & 255U) << (8 * at);
    const int difference = static_cast<int>(u) - 7;
    const unsigned sad = static_cast<unsigned>(difference < 0 ? -difference : difference) + 9;
    const unsigned expected = __builtin_popcount(u) ^ (u ? __builtin_clz(u) : 32) << 6 ^ __builtin_ffs(u) << 12 ^
                              reversed ^ static_cast<unsigned>((77ULL * u) >> 32) ^ bytes ^ (~u << 5 | u >> 27) ^ sad ^
                              __builtin_popcountll(u * 3ULL) << 3;
    EXPECT_EQ(results[i], expected) << i;
  }
}

__global__ void half_kernel(__half* out, __half2* pairs, const __half* in) {
  const int i = threadIdx.x;
  out[i] = __hfma(in[i], __float2half(2.0F), __hadd(in[i], __float2half(0.5F)));
  if (__hgt(in[i], __float2half(1.0F))) out[i] = hexp(__float2half(0.5F));
  pairs[i] = __hmul2(__halves2half2(in[i], __hneg(in[i])), __float2half2_rn(0.25F));
}
TEST(Scalar, Halves) {
  std::vector<__half> in(64);
  for (int i = 0; i < 64; ++i) in[i] = __float2half(i / 32.0F);
  DeviceArray<__half> input(in), out(64);
  DeviceArray<__half2> pairs(64);
  half_kernel<<<1, 64>>>(out.data(), pairs.data(), input.data());
  const auto results = out.read();
  const auto pair_results = pairs.read();
  for (int i = 0; i < 64; ++i) {
    const float x = i / 32.0F;
    EXPECT_NEAR(__half2float(results[i]), x > 1 ? std::exp(0.5F) : 3 * x + 0.5F, 2e-3F) << i;
    EXPECT_EQ(__high2float(pair_results[i]), -x / 4) << i;
  }
}

__global__ void bfloat_kernel(__nv_bfloat16* out, const float* in) {
  const int i = threadIdx.x;
  out[i] = __float2bfloat16(in[i]) * __float2bfloat16(1.5F) + __float2bfloat16(0.25F);
}
TEST(Scalar, Bfloats) {
  std::vector<float> in(64);
  for (int i = 0; i < 64; ++i) in[i] = i * 0.1F;
  DeviceArray<float> input(in);
  DeviceArray<__nv_bfloat16> out(64);
  bfloat_kernel<<<1, 64>>>(out.data(), input.data());
  const auto results = out.read();
  for (int i = 0; i < 64; ++i) EXPECT_NEAR(__bfloat162float(results[i]), in[i] * 1.5F + 0.25F, 0.01F * in[i] + 0.01F);
}

__device__ __noinline__ float called(float a, const int* steps) {
  for (int i = 0; i < *steps; ++i) a = a * 1.5F + i;
  return a;
}
__global__ void call_kernel(float* out) {
  const int steps = threadIdx.x % 5;
  out[threadIdx.x] = called(threadIdx.x, &steps);
}
TEST(Scalar, CallsAndAddressesOfLocals) {
  DeviceArray<float> out(40);
  call_kernel<<<1, 40>>>(out.data());
  const auto results = out.read();
  for (int thread = 0; thread < 40; ++thread) {
    float expected = thread;
    for (int i = 0; i < thread % 5; ++i) expected = expected * 1.5F + i;
    EXPECT_EQ(results[thread], expected);
  }
}

__host__ __device__ int switched(int v) {
  switch (v % 9) {
    case 0:
      return v * 3;
    case 1:
      return v ^ 77;
    case 2:
      return -v;
    case 3:
      return v << 4;
    case 4:
      return v / 3;
    case 5:
      return v % 5;
    case 6:
      return v * v;
    case 7:
      return ~v;
    default:
      return 42;
  }
}
__global__ void switch_kernel(int* out) {
  out[threadIdx.x] = switched(threadIdx.x);
}
TEST(Scalar, Switches) {
  DeviceArray<int> out(96);
  switch_kernel<<<1, 96>>>(out.data());
  const auto results = out.read();
  for (int v = 0; v < 96; ++v) EXPECT_EQ(results[v], switched(v));
}

struct Big {
  float values[20];
  int count;
  double offset;
};
__global__ void local_kernel(float* out, Big big, int shift) {
  int order[16];
  for (int i = 0; i < 16; ++i) order[(i * 5 + threadIdx.x) & 15] = i;
  int sum = 0;
  for (int i = 0; i < 16; ++i) sum = sum * 2 + order[(i + shift) & 15];
  out[threadIdx.x] =
      static_cast<float>(sum) + big.values[(threadIdx.x + shift) % big.count] + static_cast<float>(big.offset);
}
TEST(Scalar, LocalArraysAndStructsByValue) {
  Big big;
  for (int i = 0; i < 20; ++i) big.values[i] = i * i;
  big.count = 20;
  big.offset = 0.5;
  DeviceArray<float> out(40);
  local_kernel<<<1, 40>>>(out.data(), big, 3);
  const auto results = out.read();
  for (int thread = 0; thread < 40; ++thread) {
    int order[16];
    for (int i = 0; i < 16; ++i) order[(i * 5 + thread) & 15] = i;
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum = sum * 2 + order[(i + 3) & 15];
    EXPECT_EQ(results[thread], static_cast<float>(sum) + big.values[(thread + 3) % 20] + 0.5F);
  }
}

__constant__ float table[8];
__device__ int counter = 5;
__global__ void symbols_kernel(float4* out, const float4* in) {
  const float4 v = __ldg(in + threadIdx.x);
  out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x * table[threadIdx.x & 7]);
  atomicAdd(&counter, 2);
}
TEST(Scalar, ConstantsVariablesAndVectors) {
  const float host_table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_EQ(cudaMemcpyToSymbol(table, host_table, sizeof host_table), cudaSuccess);
  std::vector<float4> in(32);
  for (int i = 0; i < 32; ++i) in[i] = make_float4(i, i + 0.25F, i + 0.5F, i + 0.75F);
  DeviceArray<float4> input(in), out(32);
  symbols_kernel<<<1, 32>>>(out.data(), input.data());
  const auto results = out.read();
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(results[i].x, in[i].w);
    EXPECT_EQ(results[i].w, in[i].x * host_table[i & 7]);
  }
  int count = 0;
  ASSERT_EQ(cudaMemcpyFromSymbol(&count, counter, sizeof count), cudaSuccess);
  EXPECT_EQ(count, 69);
}

}  // namespace
