#include "core/philox.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

// The known answers that Random123 ships for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, {~0u, ~0u, ~0u, ~0u}), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(uniform_from_bits(0), 0.0f);
  EXPECT_LT(uniform_from_bits(~0u), 1.0f);
}

TEST(Philox, PurposesAndStreamsDiffer) {
  const PhiloxBlock base = random_block(1, Purpose::init, 0, 0, 0);
  EXPECT_NE(base, random_block(2, Purpose::init, 0, 0, 0));
  EXPECT_NE(base, random_block(1, Purpose::dropout, 0, 0, 0));
  EXPECT_NE(base, random_block(1, Purpose::init, 1, 0, 0));
  EXPECT_NE(base, random_block(1, Purpose::init, 0, 1, 0));
  EXPECT_NE(base, random_block(1, Purpose::init, 0, 0, 1));
}

TEST(Philox, NormalHasMeanZeroAndVarianceOne) {
  RandomSequence random(5, Purpose::init);
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.015);  // five standard errors
  EXPECT_NEAR(squares / kCount, 1, 0.025);
}

}  // namespace
}  // namespace trifold
