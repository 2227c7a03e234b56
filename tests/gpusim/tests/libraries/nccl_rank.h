// One rank of the NCCL tests: what it has, what it brings, and what all together should get.
#pragma once

#include <memory>
#include <vector>

#include <nccl.h>

#include "device_array.h"

inline constexpr int kRanks = 3;
inline constexpr std::size_t kCount = 1000;

// One rank: a device, a stream and a communicator.
struct Rank {
  int number = 0;
  int ranks = 0;
  ncclComm_t comm = nullptr;
  std::unique_ptr<Stream> stream;

  void open(const ncclUniqueId& id, int rank, int count) {
    number = rank;
    ranks = count;
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    stream = std::make_unique<Stream>();
    ASSERT_EQ(ncclCommInitRank(&comm, count, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
  }
  void close() {
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    stream.reset();
  }
  std::vector<float> input() const { return values(kCount, static_cast<std::uint32_t>(number) + 1); }
};

inline std::vector<float> input_of(int rank) {
  return values(kCount, static_cast<std::uint32_t>(rank) + 1);
}

inline std::vector<float> sum_of(int ranks) {
  std::vector<float> sum(kCount);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto input = input_of(rank);
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += input[i];
  }
  return sum;
}

// Zeros on the current device that are never freed: they go with a device that a planted error loses.
inline float* zeros(std::size_t count) {
  const std::vector<float> host(count);
  float* data = nullptr;
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data), count * sizeof(float)), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(data, host.data(), count * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  return data;
}
