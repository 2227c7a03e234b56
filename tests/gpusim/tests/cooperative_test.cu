// Cooperative launches: grids whose blocks wait for each other.
#include <cooperative_groups.h>

#include "runtime_fixture.h"

namespace {

class Cooperative : public Runtime {};

// Ready for the next barrier, and for the next launch, as soon as all have left it.
struct GridBarrier {
  unsigned arrived, generation;
};
__device__ void meet(GridBarrier* barrier) {
  __syncthreads();
  if (threadIdx.x == 0) {
    volatile unsigned* generation = &barrier->generation;
    const unsigned mine = *generation;
    __threadfence();
    if (atomicAdd(&barrier->arrived, 1u) == gridDim.x - 1) {
      barrier->arrived = 0;
      __threadfence();
      atomicAdd(&barrier->generation, 1u);
    } else {
      while (*generation == mine) __nanosleep(100);
    }
    __threadfence();
  }
  __syncthreads();
}

// x[i] becomes the sum of all x of the step before, in every step: wrong when a block is a step ahead of another.
__global__ void sum_of_all(float* x, float* scratch, int steps, GridBarrier* barrier) {
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0) {
      float sum = 0;
      for (unsigned block = 0; block < gridDim.x; ++block) sum += x[block];
      scratch[blockIdx.x] = sum;
    }
    meet(barrier);
    if (threadIdx.x == 0) x[blockIdx.x] = scratch[blockIdx.x];
    meet(barrier);
  }
}

// Each block reads what its neighbour on the left wrote, with the barrier of CUDA's own header.
__global__ void pass_to_the_right(float* x, int steps) {
  const auto grid = cooperative_groups::this_grid();
  for (int step = 0; step < steps; ++step) {
    const float value = x[(blockIdx.x + gridDim.x - 1) % gridDim.x];
    grid.sync();
    if (threadIdx.x == 0) x[blockIdx.x] = value;
    grid.sync();
  }
}

// Block 0 works for a long time while all others wait without sleeping.
__global__ void wait_for_the_first(float* x, unsigned* flag, int steps) {
  if (threadIdx.x != 0) return;
  volatile unsigned* seen = flag;
  if (blockIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < steps; ++i) sum += x[i % 8];
    x[8] = sum;
    __threadfence();
    atomicExch(flag, 1u);
  } else {
    while (*seen == 0) continue;
    __threadfence();
    x[8 + blockIdx.x] = x[8];
  }
}

constexpr int kGrid = 8;

void fill(float* x, const std::vector<float>& values) {
  ASSERT_EQ(cudaMemcpy(x, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
}

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), int blocks, cudaStream_t stream, Arguments... values) {
  void* arguments[] = {&values...};
  return cudaLaunchCooperativeKernel(kernel, blocks, kThreads, arguments, 0, stream);
}

TEST_F(Cooperative, DevicesSayThatTheyCan) {
  int can = 0;
  OK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
  EXPECT_EQ(can, 1);
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT_EQ(properties.cooperativeLaunch, 1);
}

TEST_F(Cooperative, BlocksMeetAtABarrierOfAtomics) {
  DeviceArray x, scratch, state;
  fill(x, {1, 2, 3, 4, 5, 6, 7, 8});
  OK(cudaMemset(state, 0, sizeof(GridBarrier)));
  auto* barrier = reinterpret_cast<GridBarrier*>(static_cast<float*>(state));
  for (int i = 0; i < 2; ++i)  // the second launch finds the barrier as the first has left it
    OK(launch(sum_of_all, kGrid, nullptr, static_cast<float*>(x), static_cast<float*>(scratch), 2, barrier));
  EXPECT_EQ(fetch(x, kGrid), std::vector<float>(kGrid, 36.0f * 8 * 8 * 8));
}

TEST_F(Cooperative, BlocksMeetAtTheBarrierOfCooperativeGroups) {
  DeviceArray x;
  fill(x, {0, 1, 2, 3, 4, 5, 6, 7});
  OK(launch(pass_to_the_right, kGrid, nullptr, static_cast<float*>(x), 3));
  EXPECT_EQ(fetch(x, kGrid), (std::vector<float>{5, 6, 7, 0, 1, 2, 3, 4}));
}

TEST_F(Cooperative, BlocksMaySpinWhileOneWorks) {
  DeviceArray x, flag;
  fill(x, {1, 2, 3, 4, 5, 6, 7, 8});
  OK(cudaMemset(flag, 0, sizeof(unsigned)));
  auto* word = reinterpret_cast<unsigned*>(static_cast<float*>(flag));
  OK(launch(wait_for_the_first, kGrid, nullptr, static_cast<float*>(x), word, 80000));
  EXPECT_EQ(fetch(x, 16)[15], 360000.0f);
}

TEST_F(Cooperative, TheLaunchAttributeIsTheSame) {
  DeviceArray x;
  fill(x, {0, 1, 2, 3, 4, 5, 6, 7});
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = kGrid;
  config.blockDim = kThreads;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cudaLaunchKernelEx(&config, pass_to_the_right, static_cast<float*>(x), 1));
  EXPECT_EQ(fetch(x, kGrid), (std::vector<float>{7, 0, 1, 2, 3, 4, 5, 6}));
}

TEST_F(Cooperative, AGraphReplaysIt) {
  DeviceArray x, scratch, state;
  Stream stream;
  fill(x, {1, 1, 1, 1, 1, 1, 1, 1});
  OK(cudaMemset(state, 0, sizeof(GridBarrier)));
  OK(cudaDeviceSynchronize());
  auto* barrier = reinterpret_cast<GridBarrier*>(static_cast<float*>(state));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(launch(sum_of_all, kGrid, stream, static_cast<float*>(x), static_cast<float*>(scratch), 1, barrier));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(fetch(x, kGrid), std::vector<float>(kGrid, 8.0f * 8 * 8));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
}

TEST_F(Cooperative, GridsAreAsLargeAsTheDeviceHolds) {
  DeviceArray x(64);
  OK(cudaMemset(x, 0, 64 * sizeof(float)));
  int blocks = 0, multiprocessors = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, pass_to_the_right, kThreads, 0));
  OK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  const int most = blocks * multiprocessors;
  OK(launch(pass_to_the_right, most, nullptr, static_cast<float*>(x), 1));
  EXPECT_EQ(launch(pass_to_the_right, most + 1, nullptr, static_cast<float*>(x), 1),
            cudaErrorCooperativeLaunchTooLarge);
  EXPECT_EQ(cudaGetLastError(), cudaErrorCooperativeLaunchTooLarge);
  expect_report("invalid_launch", std::to_string(most + 1) + " blocks");
}

TEST_F(Cooperative, StatisticsAreOfAllBlocks) {
  DeviceArray x(64);
  OK(cudaMemset(x, 0, 64 * sizeof(float)));
  gpusim_client::statistics(true);
  for (const int grid : {4, 8}) OK(launch(pass_to_the_right, grid, nullptr, static_cast<float*>(x), 1));
  OK(cudaDeviceSynchronize());
  gpusim_client::statistics(false);
  const auto launches = gpusim_client::launches();
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].global_write_bytes, 4 * sizeof(float));
  EXPECT_EQ(launches[1].global_write_bytes, 8 * sizeof(float));
  EXPECT_GT(launches[1].warp_instructions, launches[0].warp_instructions);
}

}  // namespace
