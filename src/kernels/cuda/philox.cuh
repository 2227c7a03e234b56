// Philox4x32-10 on the device: the numbers of core/philox.h, to the bit.
#pragma once

#include <cstdint>

#include "core/philox.h"

namespace trifold::cuda {

// Four numbers of the stream (seed, purpose, stream) at (sample, block), as random_block gives on the host.
__device__ __forceinline__ uint4 random_block_on_device(std::uint64_t seed, Purpose purpose, std::uint32_t stream,
                                                        std::uint64_t sample, std::uint32_t block) {
  const std::uint64_t key = seed ^ (static_cast<std::uint64_t>(purpose) << 56);
  std::uint32_t key0 = static_cast<std::uint32_t>(key);
  std::uint32_t key1 = static_cast<std::uint32_t>(key >> 32);
  uint4 counter =
      make_uint4(block, stream, static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32));
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = __umulhi(0xD2511F53u, counter.x);
    const std::uint32_t low0 = 0xD2511F53u * counter.x;
    const std::uint32_t high1 = __umulhi(0xCD9E8D57u, counter.z);
    const std::uint32_t low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Number `index` (0 to 3) of a block, in [0, 1), as uniform_from_bits gives on the host.
__device__ __forceinline__ float uniform_on_device(const uint4& block, std::uint32_t index) {
  const std::uint32_t low = (index & 1) != 0 ? block.y : block.x;
  const std::uint32_t high = (index & 1) != 0 ? block.w : block.z;
  return static_cast<float>(((index & 2) != 0 ? high : low) >> 8) * 0x1.0p-24f;
}

}  // namespace trifold::cuda
