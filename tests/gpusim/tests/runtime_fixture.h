// What the tests of the stand-in runtime share: kernels, owners of memory, streams and events, and a fixture that lets
// no report pass which the test did not expect.
#pragma once

#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "gpusim_client.h"

namespace {

constexpr int kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);

[[maybe_unused]] __device__ float counter = 5.0f;
[[maybe_unused]] __constant__ float factors[4] = {1.0f, 2.0f, 3.0f, 4.0f};

[[maybe_unused]] __global__ void set(float* x, int n, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
[[maybe_unused]] __global__ void add(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
[[maybe_unused]] __global__ void scale_by_factor(float* x, int n, int which) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factors[which];
}
[[maybe_unused]] __global__ void add_to_counter(float value) {
  counter += value;
}
[[maybe_unused]] __global__ void set_without_check(float* x, float value) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
[[maybe_unused]] __global__ void add_atomically(float* sum) {
  atomicAdd(sum, 1.0f);
}
[[maybe_unused]] __global__ void reverse_in_shared(float* x, int n) {
  extern __shared__ float staged[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) staged[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = staged[n - 1 - i];
}
[[maybe_unused]] __global__ void __launch_bounds__(128) at_most_128_threads(float* x) {
  x[threadIdx.x] = 1.0f;
}

constexpr int kThreads = 128;
constexpr int kBlocks = (kCount + kThreads - 1) / kThreads;

#define OK(call) ASSERT_EQ(call, cudaSuccess)

class DeviceArray {
 public:
  explicit DeviceArray(int count = kCount) { EXPECT_EQ(cudaMalloc(&data_, count * sizeof(float)), cudaSuccess); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  operator float*() const { return data_; }

 private:
  float* data_ = nullptr;
};

class PinnedArray {
 public:
  PinnedArray() { EXPECT_EQ(cudaMallocHost(&data_, kBytes), cudaSuccess); }
  ~PinnedArray() { cudaFreeHost(data_); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  operator float*() const { return data_; }

 private:
  float* data_ = nullptr;
};

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = 0) { EXPECT_EQ(cudaEventCreateWithFlags(&event_, flags), cudaSuccess); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

[[maybe_unused]] std::vector<float> fetch(const float* device, int count = kCount) {
  std::vector<float> host(count);
  EXPECT_EQ(cudaMemcpy(host.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
  return host;
}

// Every test ends without reports, except those it expects.
class Runtime : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(gpusim_client::available()) << "run with the stand-in libcudart first on LD_LIBRARY_PATH";
    cudaSetDevice(0);
  }
  void TearDown() override {
    cudaDeviceSynchronize();
    cudaGetLastError();
    for (const auto& report : gpusim_client::take_reports()) ADD_FAILURE() << report;
  }
  // Exactly one report, which begins with `finding` and holds `part`.
  static void expect_report(const std::string& finding, const std::string& part = "") {
    const auto reports = gpusim_client::take_reports();
    ASSERT_EQ(reports.size(), 1u) << "expected " << finding;
    EXPECT_TRUE(reports[0].starts_with(finding + ":")) << reports[0];
    EXPECT_NE(reports[0].find(part), std::string::npos) << reports[0];
  }
};

}  // namespace
