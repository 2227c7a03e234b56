// Devices, memory, copies, symbols and launches: what the stand-in runtime does with correct programs, and how it
// answers the calls a program may get wrong on purpose. Needs GPUSIM_DEVICES=2.
#include "runtime_fixture.h"

namespace {

TEST_F(Runtime, TwoDevicesThatAreChosenByThread) {
  int count = 0, device = -1;
  OK(cudaGetDeviceCount(&count));
  ASSERT_EQ(count, 2);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  OK(cudaSetDevice(1));
  std::thread([] {
    int other = -1;
    cudaGetDevice(&other);
    EXPECT_EQ(other, 0);
  }).join();
  OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
}

TEST_F(Runtime, PropertiesAgreeWithAttributes) {
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  int major = 0, multiprocessors = 0;
  OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  OK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(properties.major, major);
  EXPECT_EQ(properties.multiProcessorCount, multiprocessors);
}

TEST_F(Runtime, UnknownAttributeIsLoud) {
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0), cudaErrorNotSupported);
  expect_report("unsupported", "9999");
}

TEST_F(Runtime, LastErrorIsKeptUntilAsked) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

TEST_F(Runtime, FaultStaysOnItsDeviceUntilReset) {
  OK(cudaSetDevice(1));
  float* x = nullptr;
  OK(cudaMalloc(&x, kBytes));
  set_without_check<<<kBlocks + 1, kThreads>>>(x, 1.0f);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMalloc(&x, kBytes), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  expect_report("out_of_bounds", "set_without_check");

  OK(cudaSetDevice(0));
  DeviceArray y;
  set<<<kBlocks, kThreads>>>(y, kCount, 2.0f);
  EXPECT_EQ(fetch(y)[7], 2.0f);

  OK(cudaSetDevice(1));
  OK(cudaDeviceReset());
  OK(cudaMalloc(&x, kBytes));
  set<<<kBlocks, kThreads>>>(x, kCount, 3.0f);
  EXPECT_EQ(fetch(x)[7], 3.0f);
  OK(cudaFree(x));
}

TEST_F(Runtime, MemoryIsCountedAndRunsOut) {
  std::size_t free_before = 0, free_after = 0, total = 0;
  OK(cudaMemGetInfo(&free_before, &total));
  void* most = nullptr;
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  OK(cudaMalloc(&most, 1 << 20));
  OK(cudaMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_before - free_after, 1u << 20);
  OK(cudaFree(most));
  OK(cudaFree(nullptr));
  OK(cudaMalloc(&more, 0));
  EXPECT_EQ(more, nullptr);
}

TEST_F(Runtime, PointersKnowWhatTheyAre) {
  DeviceArray device;
  PinnedArray pinned;
  float pageable = 0;
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, device + 3));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  OK(cudaPointerGetAttributes(&attributes, pinned + 3));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  OK(cudaPointerGetAttributes(&attributes, &pageable));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST_F(Runtime, CopiesThereAndBack) {
  DeviceArray x, y;
  std::vector<float> host(kCount);
  std::iota(host.begin(), host.end(), 0.0f);
  OK(cudaMemcpy(x, host.data(), kBytes, cudaMemcpyDefault));
  OK(cudaMemcpy(y, x, kBytes, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(fetch(y), host);
}

TEST_F(Runtime, WrongDirectionIsRefused) {
  DeviceArray x;
  std::vector<float> host(kCount);
  EXPECT_EQ(cudaMemcpy(x, host.data(), kBytes, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  expect_report("invalid_call", "device to host, but the pointers are host to device");
}

TEST_F(Runtime, TwoDimensionalCopiesAndFills) {
  constexpr std::size_t kWidth = 12, kHeight = 5;
  char* pitched = nullptr;
  std::size_t pitch = 0;
  OK(cudaMallocPitch(&pitched, &pitch, kWidth, kHeight));
  ASSERT_GE(pitch, kWidth);
  OK(cudaMemset2D(pitched, pitch, 7, kWidth, kHeight));
  std::vector<char> host(kWidth * kHeight, 1);
  OK(cudaMemcpy2D(pitched + 1, pitch, host.data(), kWidth, 2, kHeight, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2D(host.data(), kWidth, pitched, pitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
  for (std::size_t row = 0; row < kHeight; ++row) {
    EXPECT_EQ(host[row * kWidth], 7);
    EXPECT_EQ(host[row * kWidth + 1], 1);
    EXPECT_EQ(host[row * kWidth + 2], 1);
    EXPECT_EQ(host[row * kWidth + 3], 7);
  }
  EXPECT_EQ(cudaMemcpy2D(pitched, pitch, host.data(), kWidth - 1, kWidth, kHeight, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  expect_report("invalid_call", "pitch");
  OK(cudaFree(pitched));
}

TEST_F(Runtime, UnwrittenMemoryStaysUnwrittenInACopy) {
  DeviceArray x, y;
  OK(cudaMemcpy(y, x, kBytes, cudaMemcpyDeviceToDevice));
  fetch(y);
  expect_report("uninitialised_read", "cudaMemcpy device to host");
}

TEST_F(Runtime, PageableSourceMayChangeOnceTheCallReturned) {
  DeviceArray x;
  Stream stream;
  std::vector<float> host(kCount, 1.0f);
  OK(cudaMemcpyAsync(x, host.data(), kBytes, cudaMemcpyHostToDevice, stream));
  host.assign(kCount, 2.0f);
  OK(cudaMemcpyAsync(host.data(), x, kBytes, cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(host[3], 1.0f);  // a pageable destination is complete when the call returns
}

TEST_F(Runtime, PinnedCopiesRunBehindTheHost) {
  DeviceArray x;
  PinnedArray source, result;
  Stream stream;
  for (int i = 0; i < kCount; ++i) source[i] = static_cast<float>(i);
  OK(cudaMemcpyAsync(x, source, kBytes, cudaMemcpyHostToDevice, stream));
  EXPECT_EQ(source[5], 5.0f);  // reading the source is allowed while the copy is pending
  set<<<1, 1, 0, stream>>>(x, 1, -1.0f);
  OK(cudaMemcpyAsync(result, x, kBytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(result[0], -1.0f);
  EXPECT_EQ(result[999], 999.0f);
  source[0] = 1.0f;
}

TEST_F(Runtime, NeighboursOfAPendingCopyAreFree) {
  DeviceArray x;
  PinnedArray pinned;
  Stream stream;
  OK(cudaMemset(x, 0, kBytes));
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpyAsync(pinned + 10, x, 80, cudaMemcpyDeviceToHost, stream));
  for (int i = 0; i < 10; ++i) pinned[i] = 1.0f;
  for (int i = 30; i < kCount; ++i) pinned[i] = 2.0f;
  EXPECT_EQ(pinned[9] + pinned[30], 3.0f);
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(pinned[10], 0.0f);
}

TEST_F(Runtime, HostRaceIsReportedAndTheProgramGoesOn) {
  DeviceArray x;
  PinnedArray pinned;
  Stream stream;
  pinned[0] = 3.0f;
  OK(cudaMemcpyAsync(x, pinned, kBytes, cudaMemcpyHostToDevice, stream));
  pinned[1] = 4.0f;
  expect_report("host_race", "cudaMemcpyAsync host to device");
  EXPECT_EQ(pinned[1], 4.0f);
}

TEST_F(Runtime, StreamOrderedAllocation) {
  Stream stream;
  float* x = nullptr;
  OK(cudaMallocAsync(&x, kBytes, stream));
  set<<<kBlocks, kThreads, 0, stream>>>(x, kCount, 4.0f);
  std::vector<float> host(kCount);
  OK(cudaMemcpyAsync(host.data(), x, kBytes, cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(host[1], 4.0f);
  OK(cudaFreeAsync(x, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(cudaFree(x), cudaErrorInvalidValue);
  expect_report("double_free");
}

TEST_F(Runtime, VariablesByTheirNames) {
  float value = 0;
  OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  EXPECT_EQ(value, 5.0f);
  value = 8;
  OK(cudaMemcpyToSymbol(counter, &value, sizeof value));
  add_to_counter<<<1, 1>>>(1.0f);
  OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  EXPECT_EQ(value, 9.0f);
  std::size_t bytes = 0;
  OK(cudaGetSymbolSize(&bytes, factors));
  EXPECT_EQ(bytes, 16u);

  DeviceArray x;
  const float ten = 10.0f;
  OK(cudaMemcpyToSymbol(factors, &ten, sizeof ten, 2 * sizeof(float)));
  set<<<kBlocks, kThreads>>>(x, kCount, 3.0f);
  scale_by_factor<<<kBlocks, kThreads>>>(x, kCount, 2);
  EXPECT_EQ(fetch(x)[0], 30.0f);

  OK(cudaSetDevice(1));  // has a counter of its own
  OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  EXPECT_EQ(value, 5.0f);
  EXPECT_EQ(cudaMemcpyToSymbol(factors, &value, sizeof value, 16), cudaErrorInvalidValue);
  expect_report("out_of_bounds");
}

TEST_F(Runtime, LaunchLimits) {
  DeviceArray x;
  const auto refused = [&](dim3 grid, dim3 block, std::size_t shared) {
    reverse_in_shared<<<grid, block, shared>>>(x, 16);
    const cudaError_t error = cudaGetLastError();
    expect_report("invalid_launch", "reverse_in_shared");
    return error;
  };
  EXPECT_EQ(refused(1, 1025, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(1, dim3(1, 1, 65), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(0, 32, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(1, 65536), 32, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(1, 32, 50000), cudaErrorInvalidValue);
  at_most_128_threads<<<1, 256>>>(x);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  expect_report("invalid_launch", "__launch_bounds__");
}

TEST_F(Runtime, MoreSharedMemoryHasToBeAskedFor) {
  constexpr int kMany = 14000;  // 56000 bytes
  DeviceArray x(kMany);
  std::vector<float> host(kMany);
  std::iota(host.begin(), host.end(), 0.0f);
  OK(cudaMemcpy(x, host.data(), kMany * sizeof(float), cudaMemcpyHostToDevice));
  OK(cudaFuncSetAttribute(reverse_in_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
  reverse_in_shared<<<1, 256, kMany * sizeof(float)>>>(x, kMany);
  OK(cudaGetLastError());
  EXPECT_EQ(fetch(x, kMany)[0], kMany - 1.0f);
  EXPECT_EQ(cudaFuncSetAttribute(reverse_in_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 70000),
            cudaErrorInvalidValue);
  expect_report("invalid_call", "reverse_in_shared");
}

TEST_F(Runtime, FunctionAttributesAndOccupancy) {
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, at_most_128_threads));
  EXPECT_EQ(attributes.maxThreadsPerBlock, 128);
  EXPECT_EQ(attributes.ptxVersion, 75);
  int blocks = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse_in_shared, 256, 20000));
  EXPECT_EQ(blocks, 3);  // of 65536 bytes
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, set, 256, 0));
  EXPECT_EQ(blocks, 4);  // of 1024 threads
  int grid = 0, block = 0;
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, set));
  EXPECT_GT(grid * block, 0);
}

TEST_F(Runtime, StatisticsNameEveryLaunch) {
  DeviceArray x;
  gpusim_client::statistics(true);
  set<<<dim3(kBlocks), dim3(kThreads)>>>(x, kCount, 1.0f);
  OK(cudaDeviceSynchronize());
  gpusim_client::statistics(false);
  const auto launches = gpusim_client::launches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_STREQ(launches[0].kernel, "(anonymous namespace)::set");
  EXPECT_EQ(launches[0].grid[0], static_cast<unsigned>(kBlocks));
  EXPECT_EQ(launches[0].block[0], static_cast<unsigned>(kThreads));
}

}  // namespace
