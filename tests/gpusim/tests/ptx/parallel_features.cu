// How threads work together, as nvcc compiles it for sm_75: shared memory, warp operations, atomics, CUB, the last
// block.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <numeric>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "device_array.h"

namespace {

namespace cg = cooperative_groups;

std::vector<float> small_numbers(int count) {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) values[i] = i % 17;
  return values;
}

__global__ void product_kernel(float* c, const float* a, const float* b, int n) {
  __shared__ float tile_a[16][16], tile_b[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int j = 0; j < 16; ++j) sum += tile_a[threadIdx.y][j] * tile_b[j][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
TEST(Parallel, TiledProduct) {
  const int n = 48;
  const auto host = small_numbers(n * n);
  DeviceArray<float> a(host), b(host), c(n * n);
  product_kernel<<<dim3(3, 3), dim3(16, 16)>>>(c.data(), a.data(), b.data(), n);
  const auto results = c.read();
  for (int row = 0; row < n; ++row) {
    for (int column = 0; column < n; ++column) {
      float expected = 0;
      for (int k = 0; k < n; ++k) expected += host[row * n + k] * host[k * n + column];
      ASSERT_EQ(results[row * n + column], expected);
    }
  }
}

extern __shared__ double dynamic_shared[];
__global__ void reverse_kernel(double* out) {
  dynamic_shared[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = dynamic_shared[blockDim.x - 1 - threadIdx.x];
}
TEST(Parallel, DynamicSharedMemory) {
  DeviceArray<double> out(100);
  reverse_kernel<<<1, 100, 100 * sizeof(double)>>>(out.data());
  const auto results = out.read();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(results[i], 99 - i);
}

__global__ void warp_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x & 31;
  const unsigned ballot = __ballot_sync(~0U, lane % 3 == 0);
  const unsigned match = __match_any_sync(~0U, lane / 4);
  const unsigned up = __shfl_up_sync(~0U, lane, 3), down = __shfl_down_sync(~0U, lane, 3, 16);
  const unsigned any = __any_sync(~0U, lane == 31), all = __all_sync(~0U, lane < 31);
  unsigned divergent = 0;
  if (lane < 13) divergent = __popc(__activemask());
  out[threadIdx.x] = ballot ^ match ^ up << 3 ^ down << 7 ^ any << 20 ^ all << 21 ^ divergent;
}
TEST(Parallel, WarpOperations) {
  DeviceArray<unsigned> out(64);
  warp_kernel<<<1, 64>>>(out.data());
  const auto results = out.read();
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; lane += 3) ballot |= 1U << lane;
  for (unsigned thread = 0; thread < 64; ++thread) {
    const unsigned lane = thread & 31, match = 0xfU << lane / 4 * 4;
    const unsigned up = lane < 3 ? lane : lane - 3, down = (lane & 15) + 3 > 15 ? lane : lane + 3;
    EXPECT_EQ(results[thread], ballot ^ match ^ up << 3 ^ down << 7 ^ 1U << 20 ^ (lane < 13 ? 13U : 0U)) << thread;
  }
}

__global__ void atomic_kernel(int* i, float* f, double* d, unsigned long long* u) {
  atomicAdd(i, 1);
  atomicMax(i + 1, static_cast<int>(threadIdx.x));
  atomicMin(i + 2, -static_cast<int>(threadIdx.x));
  atomicOr(i + 3, 1 << (threadIdx.x & 31));
  atomicAdd(f, 0.5F);
  atomicAdd(d, 0.25);
  atomicAdd(u, 1ULL << 33);
  __shared__ int in_block;
  if (threadIdx.x == 0) in_block = 0;
  __syncthreads();
  atomicAdd(&in_block, 2);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(i + 4, in_block);
}
TEST(Parallel, Atomics) {
  DeviceArray<int> i(std::vector<int>(5));
  DeviceArray<float> f(std::vector<float>(1));
  DeviceArray<double> d(std::vector<double>(1));
  DeviceArray<unsigned long long> u(std::vector<unsigned long long>(1));
  atomic_kernel<<<4, 100>>>(i.data(), f.data(), d.data(), u.data());
  EXPECT_EQ(i.read(), (std::vector<int>{400, 99, -99, -1, 800}));
  EXPECT_EQ(f.read()[0], 200);
  EXPECT_EQ(d.read()[0], 100);
  EXPECT_EQ(u.read()[0], 400ULL << 33);
}

// A lock that lanes of one warp compete for, and blocks too.
__global__ void lock_kernel(int* lock, int* value) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      *value += 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
TEST(Parallel, SpinLock) {
  DeviceArray<int> state(std::vector<int>(2));
  lock_kernel<<<3, 64>>>(state.data(), state.data() + 1);
  EXPECT_EQ(state.read()[1], 192);
}

__global__ void last_block_kernel(float* result, float* partial, unsigned* ticket, const float* in, int count) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ Reduce::TempStorage storage;
  __shared__ bool is_last;
  float sum = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < count; i += gridDim.x * 128) sum += in[i];
  sum = Reduce(storage).Sum(sum);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  sum = threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0;
  sum = Reduce(storage).Sum(sum);
  if (threadIdx.x == 0) *result = sum;
}
TEST(Parallel, TheLastBlockSumsUp) {
  const auto host = small_numbers(10000);
  DeviceArray<float> in(host), partial(20), result(1);
  DeviceArray<unsigned> ticket(std::vector<unsigned>(1));
  for (int repeat = 0; repeat < 2; ++repeat)
    last_block_kernel<<<20, 128>>>(result.data(), partial.data(), ticket.data(), in.data(), 10000);
  EXPECT_EQ(result.read()[0], std::accumulate(host.begin(), host.end(), 0.0F));
}

__global__ void groups_kernel(float* out, const float* in) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<16>(block);
  const float sum = cg::reduce(tile, in[block.thread_rank()], cg::plus<float>());
  if (tile.thread_rank() == 0) atomicAdd(out, sum);
  block.sync();
}
TEST(Parallel, CooperativeGroups) {
  const auto host = small_numbers(256);
  DeviceArray<float> in(host), out(std::vector<float>(1));
  groups_kernel<<<1, 256>>>(out.data(), in.data());
  EXPECT_EQ(out.read()[0], std::accumulate(host.begin(), host.end(), 0.0F));
}

__global__ void scan_kernel(int* out, const int* in) {
  using Scan = cub::BlockScan<int, 256>;
  __shared__ Scan::TempStorage storage;
  int value = in[threadIdx.x];
  Scan(storage).InclusiveSum(value, value);
  out[threadIdx.x] = value;
}
TEST(Parallel, CubScan) {
  std::vector<int> host(256), expected(256);
  for (int i = 0; i < 256; ++i) host[i] = i * 7 % 23;
  std::partial_sum(host.begin(), host.end(), expected.begin());
  DeviceArray<int> in(host), out(256);
  scan_kernel<<<1, 256>>>(out.data(), in.data());
  EXPECT_EQ(out.read(), expected);
}

}  // namespace
