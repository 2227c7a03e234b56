// Philox4x32-10 (Salmon et al., SC'11): a counter-based generator. A value depends only on key and counter, so any rank
// and any thread can make the numbers of any sample, in any order, and get the same ones.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace trifold {

// What the random numbers are for. Two purposes never share a stream.
enum class Purpose : std::uint32_t { init = 1, shuffle, augment, dropout, synthetic, sampler, decode, clients };

using PhiloxBlock = std::array<std::uint32_t, 4>;

inline PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = 0xD2511F53ull * counter[0];
    const std::uint64_t product1 = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(product0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// [0, 1), 24 bits.
inline float uniform_from_bits(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1.0p-24f;
}

// Four numbers of the stream (seed, purpose, stream) at (sample, block). `stream` separates layers, parameters, epochs.
inline PhiloxBlock random_block(std::uint64_t seed, Purpose purpose, std::uint32_t stream, std::uint64_t sample,
                                std::uint32_t block) {
  const std::uint64_t key = seed ^ (static_cast<std::uint64_t>(purpose) << 56);
  return philox(key, {block, stream, static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32)});
}

// A sequence of numbers from one (seed, purpose, stream, sample): for places that draw a few, one after the other.
class RandomSequence {
 public:
  RandomSequence(std::uint64_t seed, Purpose purpose, std::uint32_t stream = 0, std::uint64_t sample = 0)
      : seed_(seed), purpose_(purpose), stream_(stream), sample_(sample) {}

  std::uint32_t bits() {
    if (used_ == 4) {
      block_ = random_block(seed_, purpose_, stream_, sample_, next_block_++);
      used_ = 0;
    }
    return block_[static_cast<std::size_t>(used_++)];
  }
  float uniform() { return uniform_from_bits(bits()); }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // [0, count), unbiased to 2^-32.
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits()) * count) >> 32);
  }
  float normal() {
    const float radius = std::sqrt(-2.0f * std::log(1.0f - uniform()));
    return radius * std::cos(6.28318530718f * uniform());
  }

 private:
  std::uint64_t seed_;
  Purpose purpose_;
  std::uint32_t stream_;
  std::uint64_t sample_;
  std::uint32_t next_block_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

}  // namespace trifold
