// What is decoded and what is left add up to what was encoded; bytes that are no encoding are refused.
#include "parallel/servers/slices/gradient_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<float> normal(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

Bytes encoded(std::span<const float> values, const CodecOptions& options, std::span<float> left = {}) {
  Bytes bytes;
  encode(values, left, options, bytes);
  return bytes;
}

std::vector<float> decoded(std::span<const std::byte> bytes, std::size_t elements) {
  std::vector<float> values(elements, -99.0f);
  decode(bytes, values);
  return values;
}

constexpr CodecOptions kFloats = {};
constexpr CodecOptions kHalves = {.half = true};
constexpr CodecOptions kLargest = {.keep = 0.01};
constexpr CodecOptions kLargestHalves = {.half = true, .keep = 0.01};

TEST(GradientCodec, FloatsComeBackToTheBit) {
  std::vector<float> values = normal(3001);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[6] = -std::numeric_limits<float>::infinity();
  values[7] = -0.0f;
  const Bytes bytes = encoded(values, kFloats);
  EXPECT_EQ(bytes.size(), 8 + 4 * values.size());
  const std::vector<float> back = decoded(bytes, values.size());
  EXPECT_EQ(std::memcmp(back.data(), values.data(), 4 * values.size()), 0);
  const float* plain = plain_floats(bytes, values.size());
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(std::memcmp(plain, values.data(), 4 * values.size()), 0);
}

TEST(GradientCodec, PlainFloatsAreOnlyThoseThatCanBeReadWhereTheyLie) {
  const std::vector<float> values = normal(16);
  const Bytes bytes = encoded(values, kFloats);
  EXPECT_EQ(plain_floats(bytes, 15), nullptr);
  EXPECT_EQ(plain_floats(encoded(values, kHalves), 16), nullptr);
  EXPECT_EQ(plain_floats(encoded(normal(12), kHalves), 6), nullptr);  // as long as 6 floats
  Bytes odd(1);
  odd.insert(odd.end(), bytes.begin(), bytes.end());
  EXPECT_EQ(plain_floats(std::span(odd).subspan(1), 16), nullptr);
  EXPECT_EQ(decoded(std::span(odd).subspan(1), 16), values);
}

TEST(GradientCodec, EncodingsInARowStayAligned) {
  Bytes bytes;
  const std::vector<float> odd = normal(7), large = normal(1111);
  for (const CodecOptions& options : {kHalves, kLargestHalves, kLargest, kFloats}) {
    encode(odd, {}, options, bytes);
    EXPECT_EQ(bytes.size() % 4, 0u);
    const std::size_t begin = bytes.size();
    encode(large, {}, options, bytes);
    EXPECT_EQ(bytes.size() % 4, 0u);
    EXPECT_NO_THROW(decoded(std::span(bytes).subspan(begin), large.size()));
  }
}

TEST(GradientCodec, HalvesAreRoundedAndTheRestIsKept) {
  const std::vector<float> values = normal(2050);
  std::vector<float> left(values.size(), 0.0f);
  const Bytes bytes = encoded(values, kHalves, left);
  EXPECT_LE(bytes.size(), 12 + 2 * values.size());
  const std::vector<float> back = decoded(bytes, values.size());
  float most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(back[i], values[i], std::fabs(values[i]) * 0x1p-11f + 0x1p-25f);
    EXPECT_EQ(back[i] + left[i], values[i]) << i;
    most = std::max(most, std::fabs(left[i]));
  }
  EXPECT_GT(most, 0);
}

TEST(GradientCodec, NumbersBeyondHalvesAreSaidBitByBit) {
  const std::vector<float> values = {100000.0f, -3e5f, 65510.0f};
  std::vector<float> left(3, 0.0f);
  EXPECT_EQ(decoded(encoded(values, kHalves, left), 3), (std::vector<float>{65504.0f, -65504.0f, 65504.0f}));
  EXPECT_EQ(left, (std::vector<float>{34496.0f, -234496.0f, 6.0f}));
  EXPECT_EQ(decoded(encoded(std::vector<float>(3, 0.0f), kHalves, left), 3)[0], 34496.0f);

  // Floats of this size are 64 apart, and 65504 is 1023.5 of that.
  left.assign(1, 0.0f);
  EXPECT_EQ(decoded(encoded(std::vector<float>{-671088576.0f}, kHalves, left), 1)[0], -65504.0f);
  EXPECT_EQ(left[0], -671023104.0f);
}

TEST(GradientCodec, TheLargestAreSentAndTheRestIsLeft) {
  const std::vector<float> values = normal(100000);
  std::vector<float> left(values.size(), 0.0f);
  const std::vector<float> back = decoded(encoded(values, kLargest, left), values.size());
  std::size_t sent = 0;
  float least_sent = 1e9f, most_left = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(back[i] + left[i], values[i]) << i;
    EXPECT_TRUE(back[i] == 0 || left[i] == 0) << i;
    if (back[i] != 0) {
      ++sent;
      least_sent = std::min(least_sent, std::fabs(values[i]));
    } else {
      most_left = std::max(most_left, std::fabs(values[i]));
    }
  }
  EXPECT_EQ(sent, 1000u);
  EXPECT_GE(least_sent, most_left);
}

TEST(GradientCodec, OneInAHundredCostsLittleMoreThanAHundredthOfTheBytes) {
  const std::vector<float> values = normal(262144);
  const double whole = 4.0 * static_cast<double>(values.size());
  EXPECT_LT(static_cast<double>(encoded(values, kLargest).size()), 0.0135 * whole);
  EXPECT_LT(static_cast<double>(encoded(values, kLargestHalves).size()), 0.0085 * whole);
}

// A bit a position is shorter than a byte a gap where more than an eighth is sent.
TEST(GradientCodec, PositionsOfManyAreABitmap) {
  const std::vector<float> values = normal(80000);
  const CodecOptions third = {.keep = 0.3};
  const Bytes bytes = encoded(values, third);
  EXPECT_EQ(bytes.size(), 8 + 4 * 24000 + 10000u);
  const std::vector<float> back = decoded(bytes, values.size());
  EXPECT_EQ(std::count(back.begin(), back.end(), 0.0f), 56000);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(back[i] == 0 || back[i] == values[i]);
}

TEST(GradientCodec, WhatWasLeftIsSaidInTheEnd) {
  const std::vector<float> values = normal(1000);
  for (const CodecOptions& options : {kLargest, kLargestHalves, kHalves}) {
    std::vector<float> left(values.size(), 0.0f);
    std::vector<double> received(values.size(), 0.0);
    std::vector<float> back = decoded(encoded(values, options, left), values.size());
    const std::vector<float> nothing(values.size(), 0.0f);
    for (int round = 0; round < 250; ++round) {
      for (std::size_t i = 0; i < values.size(); ++i) received[i] += back[i];
      back = decoded(encoded(nothing, options, left), values.size());
    }
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(received[i], values[i], 1e-6) << i;
  }
  std::vector<float> left = normal(1000, 2);
  const std::vector<float> before = left;
  const std::vector<float> back = decoded(encoded(values, kFloats, left), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(back[i], values[i] + before[i]);
  EXPECT_EQ(left, std::vector<float>(values.size(), 0.0f));
}

TEST(GradientCodec, WhatIsNotFiniteIsSaidAtOnceAndLeavesNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = normal(200);
  values[17] = nan;
  values[100] = -infinity;
  for (const CodecOptions& options : {kLargest, kLargestHalves, kHalves, kFloats}) {
    std::vector<float> left(values.size(), 0.0f);
    const std::vector<float> back = decoded(encoded(values, options, left), values.size());
    EXPECT_TRUE(std::isnan(back[17]));
    EXPECT_EQ(back[100], -infinity);
    EXPECT_TRUE(std::all_of(left.begin(), left.end(), [](float rest) { return std::isfinite(rest); }));
  }
  const std::vector<float> all(200, nan);  // more than are sent
  std::vector<float> left(200, 0.0f);
  EXPECT_TRUE(std::isnan(decoded(encoded(all, kLargest, left), 200)[1]));
  EXPECT_EQ(left, std::vector<float>(200, 0.0f));
}

TEST(GradientCodec, ZerosAreNotSentAndOfEqualsTheFirst) {
  std::vector<float> values(1000, 0.0f);
  EXPECT_EQ(encoded(values, kLargest).size(), 8u);
  values[500] = -1;
  EXPECT_EQ(encoded(values, kLargest).size(), 8u + 4 + 4);  // a number; 2 bytes of position, and padding
  EXPECT_EQ(decoded(encoded(values, kLargest), 1000), values);
  std::fill(values.begin(), values.end(), 2.0f);
  const std::vector<float> back = decoded(encoded(values, kLargest), 1000);
  EXPECT_EQ(std::count(back.begin(), back.begin() + 10, 2.0f), 10);
  EXPECT_EQ(std::count(back.begin(), back.end(), 0.0f), 990);
}

TEST(GradientCodec, ShortSlicesAreSentWhole) {
  for (std::size_t count = 0; count < 4; ++count) {
    const std::vector<float> values = normal(count);
    for (const CodecOptions& options : {kFloats, kHalves, kLargest, kLargestHalves}) {
      std::vector<float> left(count, 0.0f);
      const Bytes bytes = encoded(values, options, left);
      EXPECT_LE(bytes.size(), 8 + 4 * count);
      const std::vector<float> back = decoded(bytes, count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(back[i] + left[i], values[i]);
    }
  }
  EXPECT_EQ(encoded(std::vector<float>{3.0f}, kLargest).size(), 12u);
}

TEST(GradientCodec, NonsenseIsRefusedBeforeAnythingIsSent) {
  const std::vector<float> values = normal(4);
  std::vector<float> left(3);
  EXPECT_THROW(encoded(values, kFloats, left), Error);
  EXPECT_THROW(encoded(values, {.keep = 0}), Error);
  EXPECT_THROW(encoded(values, {.keep = 1.5}), Error);
  EXPECT_THROW(encoded(values, {.keep = std::nan("")}), Error);
}

// ---- bytes from anybody

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

void expect_refused(const Bytes& bytes, std::size_t elements, const std::string& why) {
  try {
    decoded(bytes, elements);
    ADD_FAILURE() << "accepted: " << why;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(GradientCodecDefence, WhatIsNoEncodingIsRefused) {
  expect_refused({}, 0, "too short");
  expect_refused(bytes_of({0, 0, 0, 0, 1, 0, 0}), 1, "too short");
  expect_refused(bytes_of({3, 0, 0, 0, 0, 0, 0, 0}), 0, "unknown kind 3");
  expect_refused(bytes_of({0, 1, 0, 0, 0, 0, 0, 0}), 0, "unknown flags");
  expect_refused(bytes_of({2, 4, 0, 0, 0, 0, 0, 0}), 0, "unknown flags");
  expect_refused(bytes_of({0, 0, 9, 0, 0, 0, 0, 0}), 0, "unknown flags");
  expect_refused(bytes_of({0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4}), 1, "2 numbers, for a slice of 1");
  expect_refused(bytes_of({0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4}), 2, "1 numbers, for a slice of 2");
  expect_refused(bytes_of({0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4}), 2, "2 numbers in 4 bytes");
  expect_refused(bytes_of({0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}), 1, "longer");
  expect_refused(bytes_of({1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0, 1}), 1, "longer");  // padding that says something
  expect_refused(bytes_of({2, 0, 0, 0, 255, 255, 255, 255}), 4, "4294967295 numbers");
}

TEST(GradientCodecDefence, PositionsThatCannotBeAreRefused) {
  constexpr int kGaps = 1, kBits = 3;  // both with halves
  const auto two = [](int flags, std::initializer_list<int> places) {
    Bytes bytes = bytes_of({2, flags, 0, 0, 2, 0, 0, 0, 0, 0x3c, 0, 0x40});  // 1 and 2
    for (const int place : places) bytes.push_back(static_cast<std::byte>(place));
    return bytes;  // a multiple of 4 bytes if there are 4 of places
  };
  EXPECT_EQ(decoded(two(kGaps, {0, 1, 0, 0}), 3), (std::vector<float>{1, 0, 2}));
  EXPECT_EQ(decoded(two(kGaps, {0x80, 0, 1, 0}), 3), (std::vector<float>{1, 0, 2}));
  expect_refused(two(kGaps, {0, 1}), 3, "cut off");
  expect_refused(two(kGaps, {0, 2, 0, 0}), 3, "position 3 in a slice of 3");
  expect_refused(two(kGaps, {0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0}), 3, "in a slice of 3");
  expect_refused(two(kGaps, {0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0}), 3, "no number");
  expect_refused(two(kGaps, {}), 3, "ends within its positions");
  expect_refused(two(kGaps, {0, 0x80, 0x80, 0x80}), 3, "ends within its positions");
  expect_refused(two(kGaps, {0, 1, 1, 0}), 3, "longer");
  expect_refused(two(kGaps, {0, 1, 0, 0, 0, 0, 0, 0}), 3, "longer");
  EXPECT_EQ(decoded(two(kBits, {0b101, 0, 0, 0}), 9), (std::vector<float>{1, 0, 2, 0, 0, 0, 0, 0, 0}));
  expect_refused(two(kBits, {0b101, 0, 0, 0}), 33, "ends within its positions");
  expect_refused(two(kBits, {0b101, 0b10, 0, 0}), 9, "position 9 in a slice of 9");
  expect_refused(two(kBits, {0b111, 0, 0, 0}), 9, "more positions");
  expect_refused(two(kBits, {0b100, 0, 0, 0}), 9, "with 1 positions");
  expect_refused(two(kBits, {0b101, 0, 1, 0}), 9, "longer");
}

// Every change of one byte of an encoding is refused or gives numbers; sanitizers watch.
TEST(GradientCodecDefence, DamageNeverReachesBeyondTheSlice) {
  const std::vector<float> values = normal(300);
  for (const CodecOptions& options : {CodecOptions{.keep = 0.05}, CodecOptions{.half = true, .keep = 0.4}, kHalves}) {
    const Bytes whole = encoded(values, options);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      for (const int change : {1, 128, 255}) {
        Bytes damaged = whole;
        damaged[i] ^= static_cast<std::byte>(change);
        std::vector<float> guarded(302, 7.0f);
        try {
          decode(damaged, std::span(guarded).subspan(1, 300));
        } catch (const Error&) {
        }
        EXPECT_EQ(guarded.front(), 7.0f);
        EXPECT_EQ(guarded.back(), 7.0f);
      }
      EXPECT_THROW(decoded(std::span(whole).first(i), 300), Error);
    }
  }
}

}  // namespace
}  // namespace trifold
