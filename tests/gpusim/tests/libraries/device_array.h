// What the library tests share: arrays on the device, repeatable values, 16-bit conversions, and what was reported.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "gpusim_client.h"

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { upload(values); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void upload(const std::vector<T>& values) const {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  std::vector<T> download() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

// Multiples of 1/8 in [-1, 1]: exact in every type, and their products sum exactly in float.
inline std::vector<float> values(std::size_t count, std::uint32_t seed) {
  std::vector<float> result(count);
  for (auto& value : result) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(seed >> 16 & 15U) - 8) / 8;
  }
  return result;
}

inline std::vector<__half> to_half(const std::vector<float>& from) {
  std::vector<__half> to;
  for (const float value : from) to.push_back(__float2half(value));
  return to;
}
inline std::vector<float> to_float(const std::vector<__half>& from) {
  std::vector<float> to;
  for (const auto value : from) to.push_back(__half2float(value));
  return to;
}
inline std::vector<__nv_bfloat16> to_bfloat(const std::vector<float>& from) {
  std::vector<__nv_bfloat16> to;
  for (const float value : from) to.push_back(__float2bfloat16(value));
  return to;
}
inline std::vector<float> to_float(const std::vector<__nv_bfloat16>& from) {
  std::vector<float> to;
  for (const auto value : from) to.push_back(__bfloat162float(value));
  return to;
}

// The one report there has to be: of this kind, with this in its text.
inline void expect_report(const std::string& kind, const std::string& text) {
  const auto reports = gpusim_client::take_reports();
  ASSERT_EQ(reports.size(), 1U) << (reports.empty() ? "nothing was reported" : reports[1]);
  EXPECT_EQ(reports[0].rfind(kind + ":", 0), 0U) << reports[0];
  EXPECT_NE(reports[0].find(text), std::string::npos) << reports[0];
}

// A test that expects no reports fails on any.
class LibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(gpusim_client::available()) << "run with the stand-ins first on LD_LIBRARY_PATH";
    gpusim_client::take_reports();
  }
  void TearDown() override {
    for (const auto& report : gpusim_client::take_reports()) ADD_FAILURE() << report;
  }
};
