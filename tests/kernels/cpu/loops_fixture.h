// What the tests of the vectorised loops share: each runs on every instruction set (skipped where the machine lacks it)
// and in every layout, against plain double loops written here through offset_of().
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/parallel.h"
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/simd/channel_view.h"

#define TRIFOLD_TEST_EVERY_ISA(Fixture) \
  INSTANTIATE_TEST_SUITE_P(Isa, Fixture, testing::Values(Isa::generic, Isa::avx2, Isa::avx512), name_of_isa)

namespace trifold::cpu {

inline constexpr std::int64_t kSamples = 3;
inline constexpr Range kRange = {1, 3};  // sample 0 must stay as it was
inline constexpr float kUntouched = -77.0f;

class LoopsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    bool runs = GetParam() == Isa::generic;
#if defined(__x86_64__)
    if (GetParam() == Isa::avx2) runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (GetParam() == Isa::avx512) {
      runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    }
#endif
    if (!runs) GTEST_SKIP() << "this machine has no " << isa_name(GetParam());
  }

  int lanes() const {
    return GetParam() == Isa::avx512 ? 16 : 8;
  }

  // Planes shorter, equal, longer than vectors and than what one float sum takes; features; blocked.
  std::vector<ChannelView> views() const {
    return {{5, 37, false},     {3, 64, false},         {2, 20003, false},        {6, 3, false},
            {37, 1, false},     {48, 1, false},         {2L * lanes(), 49, true}, {lanes(), 2051, true},
            {lanes(), 1, true}, {3L * lanes(), 2, true}};
  }

  std::int64_t offset_of(const ChannelView& view, std::int64_t n, std::int64_t c, std::int64_t p) const {
    const std::int64_t sample = n * view.channels * view.pixels;
    if (!view.blocked) return sample + c * view.pixels + p;
    return sample + (c / lanes() * view.pixels + p) * lanes() + c % lanes();
  }

  bool mask_bit(const ChannelView& view, const std::vector<std::uint8_t>& mask, std::int64_t n, std::int64_t c,
                std::int64_t p) const {
    std::int64_t bit = view.blocked       ? offset_of(view, 0, c, p)
                       : view.pixels == 1 ? c
                                          : c * ((view.pixels + 7) / 8 * 8) + p;
    return (mask[static_cast<std::size_t>(n * mask_bytes(view) + bit / 8)] >> (bit % 8)) & 1;
  }

  // body(n, c, p, index) for the elements of the samples in kRange.
  template <class Body>
  void for_each_element(const ChannelView& view, Body body) const {
    for (std::int64_t n = kRange.begin; n < kRange.end; ++n) {
      for (std::int64_t c = 0; c < view.channels; ++c) {
        for (std::int64_t p = 0; p < view.pixels; ++p) {
          body(n, static_cast<std::size_t>(c), p, static_cast<std::size_t>(offset_of(view, n, c, p)));
        }
      }
    }
  }

  std::vector<float> random(std::int64_t count, float low = -1, float high = 1) {
    std::uniform_real_distribution<float> distribution(low, high);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = distribution(generator_);
    return values;
  }
  std::vector<float> random(const ChannelView& view, float low = -1, float high = 1) {
    return random(kSamples * sample_elements(view), low, high);
  }
  static std::vector<float> untouched(const ChannelView& view) {
    return std::vector<float>(static_cast<std::size_t>(kSamples * sample_elements(view)), kUntouched);
  }
  static void expect_sample_0_untouched(const ChannelView& view, const std::vector<float>& values) {
    for (std::int64_t i = 0; i < sample_elements(view); ++i) {
      ASSERT_EQ(values[static_cast<std::size_t>(i)], kUntouched) << "element " << i;
    }
  }

  std::mt19937 generator_{7};
};

inline std::string text_of(const ChannelView& view) {
  return std::to_string(view.channels) + "x" + std::to_string(view.pixels) + (view.blocked ? " blocked" : " plain");
}

}  // namespace trifold::cpu
