// What sm_80 adds: matrix products of a warp, ldmatrix, asynchronous copies, arithmetic of bf16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include "device_array.h"

namespace {

constexpr int kM = 16, kN = 8, kK = 16;

template <class T>
std::vector<T> numbers(int count, int period) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) values.push_back(T(static_cast<float>(i * 7 % period - period / 2) * 0.25F));
  return values;
}

template <class T>
std::vector<float> product(const std::vector<T>& a, const std::vector<T>& b,
                           int depth) {  // a [16, depth], b [depth, 8]
  std::vector<float> c(kM * kN);
  for (int row = 0; row < kM; ++row)
    for (int column = 0; column < kN; ++column)
      for (int k = 0; k < depth; ++k)
        c[row * kN + column] += static_cast<float>(a[row * depth + k]) * static_cast<float>(b[k * kN + column]);
  return c;
}

__device__ void store_result(float* c, const float (&d)[4]) {
  const int group = threadIdx.x / 4, within = threadIdx.x % 4;
  c[group * kN + within * 2] = d[0];
  c[group * kN + within * 2 + 1] = d[1];
  c[(group + 8) * kN + within * 2] = d[2];
  c[(group + 8) * kN + within * 2 + 1] = d[3];
}

// A through ldmatrix, B through its transposed form.
__global__ void half_kernel(float* c, const __half* a, const __half* b) {
  __shared__ __align__(16) __half tile_a[kM * kK];
  __shared__ __align__(16) __half tile_b[kK * kN];
  for (int i = threadIdx.x; i < kM * kK; i += 32) tile_a[i] = a[i];
  for (int i = threadIdx.x; i < kK * kN; i += 32) tile_b[i] = b[i];
  __syncwarp();
  unsigned fa[4], fb[2];
  const int lane = threadIdx.x;
  const auto from_a = static_cast<unsigned>(__cvta_generic_to_shared(tile_a + (lane % 16) * kK + lane / 16 * 8));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
               : "r"(from_a));
  const auto from_b = static_cast<unsigned>(__cvta_generic_to_shared(tile_b + (lane % 16) * kN));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(fb[0]), "=r"(fb[1])
               : "r"(from_b));
  float d[4] = {1, 1, 1, 1};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  store_result(c, d);
}
TEST(Tensor, HalfProductThroughLdmatrix) {
  const auto a = numbers<__half>(kM * kK, 13);
  const auto b = numbers<__half>(kK * kN, 11);
  DeviceArray<__half> in_a(a), in_b(b);
  DeviceArray<float> c(kM * kN);
  half_kernel<<<1, 32>>>(c.data(), in_a.data(), in_b.data());
  const auto expected = product(a, b, kK);
  const auto results = c.read();
  for (int i = 0; i < kM * kN; ++i) EXPECT_EQ(results[i], expected[i] + 1) << i;
}

// Fragments read straight from memory.
__global__ void bfloat_kernel(float* c, const __nv_bfloat16* a, const __nv_bfloat16* b) {
  const int group = threadIdx.x / 4, within = threadIdx.x % 4;
  unsigned fa[2];
  for (int part = 0; part < 2; ++part)
    fa[part] = *reinterpret_cast<const unsigned*>(a + (group + 8 * part) * 8 + within * 2);
  const __nv_bfloat162 pair = __halves2bfloat162(b[within * 2 * kN + group], b[(within * 2 + 1) * kN + group]);
  const unsigned fb = *reinterpret_cast<const unsigned*>(&pair);
  float d[4];
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
               : "r"(fa[0]), "r"(fa[1]), "r"(fb), "f"(0.0F));
  store_result(c, d);
}
TEST(Tensor, BfloatProduct) {
  const auto a = numbers<__nv_bfloat16>(kM * 8, 13);
  const auto b = numbers<__nv_bfloat16>(8 * kN, 11);
  DeviceArray<__nv_bfloat16> in_a(a), in_b(b);
  DeviceArray<float> c(kM * kN);
  bfloat_kernel<<<1, 32>>>(c.data(), in_a.data(), in_b.data());
  EXPECT_EQ(c.read(), product(a, b, 8));
}

__global__ void tf32_kernel(float* c, const float* a, const float* b) {
  const int group = threadIdx.x / 4, within = threadIdx.x % 4;
  const auto tf32 = [](float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
  };
  unsigned fa[4], fb[2];
  for (int part = 0; part < 4; ++part) fa[part] = tf32(a[(group + part % 2 * 8) * 8 + within + part / 2 * 4]);
  for (int part = 0; part < 2; ++part) fb[part] = tf32(b[(within + part * 4) * kN + group]);
  float d[4];
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]), "f"(0.0F));
  store_result(c, d);
}
TEST(Tensor, Tf32Product) {
  const auto a = numbers<float>(kM * 8, 13);
  const auto b = numbers<float>(8 * kN, 11);
  DeviceArray<float> in_a(a), in_b(b), c(kM * kN);
  tf32_kernel<<<1, 32>>>(c.data(), in_a.data(), in_b.data());
  EXPECT_EQ(c.read(), product(a, b, 8));
}

// Two stages in flight.
__global__ void pipeline_kernel(float* out, const float* in, int stages) {
  __shared__ __align__(16) float buffer[2][128];
  const auto fetch = [&](int stage) {
    __pipeline_memcpy_async(&buffer[stage % 2][threadIdx.x * 4], in + stage * 128 + threadIdx.x * 4, 16);
    __pipeline_commit();
  };
  fetch(0);
  float sum = 0;
  for (int stage = 0; stage < stages; ++stage) {
    if (stage + 1 < stages) {
      fetch(stage + 1);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    sum += buffer[stage % 2][127 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
TEST(Tensor, AsynchronousCopies) {
  const auto in = numbers<float>(5 * 128, 101);
  DeviceArray<float> input(in), out(32);
  pipeline_kernel<<<1, 32>>>(out.data(), input.data(), 5);
  const auto results = out.read();
  for (int thread = 0; thread < 32; ++thread) {
    float expected = 0;
    for (int stage = 0; stage < 5; ++stage) expected += in[stage * 128 + 127 - thread];
    EXPECT_EQ(results[thread], expected);
  }
}

__global__ void bfloat_arithmetic_kernel(__nv_bfloat16* out, const __nv_bfloat16* in, __nv_bfloat162* sum) {
  const int i = threadIdx.x;
  out[i] = __hmax(__hfma(in[i], in[63 - i], in[i]), __float2bfloat16(-1.0F));
  atomicAdd(sum, __floats2bfloat162_rn(1.0F, 2.0F));
}
TEST(Tensor, BfloatArithmetic) {
  const auto in = numbers<__nv_bfloat16>(64, 13);
  DeviceArray<__nv_bfloat16> input(in), out(64);
  DeviceArray<__nv_bfloat162> sum(std::vector<__nv_bfloat162>{__floats2bfloat162_rn(0, 0)});
  bfloat_arithmetic_kernel<<<1, 64>>>(out.data(), input.data(), sum.data());
  const auto results = out.read();
  for (int i = 0; i < 64; ++i) {
    const float x = __bfloat162float(in[i]);
    EXPECT_EQ(__bfloat162float(results[i]),
              std::max(__bfloat162float(__float2bfloat16(x * __bfloat162float(in[63 - i]) + x)), -1.0F));
  }
  EXPECT_EQ(__low2float(sum.read()[0]), 64.0F);
  EXPECT_EQ(__high2float(sum.read()[0]), 128.0F);
}

}  // namespace
