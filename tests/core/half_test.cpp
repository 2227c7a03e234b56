#include "core/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(Half, EveryF16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_f16(static_cast<std::uint16_t>(bits));
    const std::uint16_t back = f16_from_float(value);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(float_from_f16(back))) << bits;
    else
      EXPECT_EQ(back, bits);
  }
}

TEST(Half, EveryBf16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_bf16(static_cast<std::uint16_t>(bits));
    const std::uint16_t back = bf16_from_float(value);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(float_from_bf16(back))) << bits;
    else
      EXPECT_EQ(back, bits);
  }
}

TEST(Half, F16RoundsToTheNearestEven) {
  EXPECT_EQ(f16_from_float(1.0f), 0x3c00);
  EXPECT_EQ(f16_from_float(1.0f + 0x1p-11f), 0x3c00);             // half-way: to the even one below
  EXPECT_EQ(f16_from_float(1.0f + 3 * 0x1p-11f), 0x3c02);         // half-way: to the even one above
  EXPECT_EQ(f16_from_float(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // just above half-way
  EXPECT_EQ(f16_from_float(-2.5f), 0xc100);
  EXPECT_EQ(f16_from_float(65504.0f), 0x7bff);
  EXPECT_EQ(f16_from_float(65519.0f), 0x7bff);
  EXPECT_EQ(f16_from_float(65520.0f), 0x7c00);  // rounds to infinity
  EXPECT_EQ(f16_from_float(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(f16_from_float(0x1p-24f), 0x0001);  // the least subnormal
  EXPECT_EQ(f16_from_float(0x1p-25f), 0x0000);  // half of it: to even
  EXPECT_EQ(f16_from_float(0x1.8p-25f), 0x0001);
  EXPECT_EQ(f16_from_float(0x1p-14f), 0x0400);             // the least normal
  EXPECT_EQ(f16_from_float(0x1p-14f - 0x1p-25f), 0x0400);  // a subnormal that rounds up to it
  EXPECT_EQ(f16_from_float(-0.0f), 0x8000);
}

TEST(Half, Bf16RoundsToTheNearestEven) {
  EXPECT_EQ(bf16_from_float(1.0f), 0x3f80);
  EXPECT_EQ(bf16_from_float(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bf16_from_float(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(bf16_from_float(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace trifold
