#include "core/layout.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace trifold {
namespace {

struct Case {
  Layout layout;
  Shape shape;
};

class Layouts : public ::testing::TestWithParam<Case> {};

TEST_P(Layouts, ThereAndBackIsTheSame) {
  const auto& [layout, shape] = GetParam();
  std::vector<float> plain(static_cast<std::size_t>(shape.elements()));
  std::iota(plain.begin(), plain.end(), 1.0f);
  std::vector<float> stored(plain.size(), 0.0f);
  std::vector<float> back(plain.size(), 0.0f);
  to_layout(plain, shape, layout, stored);
  to_plain(stored, shape, layout, back);
  EXPECT_EQ(back, plain);
  EXPECT_EQ(stored == plain, layout.plain());
}

INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         ::testing::Values(Case{{}, {2, 3, 4, 5}}, Case{{Order::channel_block, 8, 1}, {2, 16, 3, 5}},
                                           Case{{Order::channel_block, 16, 1}, {1, 32, 2, 2}},
                                           Case{{Order::conv_block, 8, 1}, {16, 24, 3, 3}},
                                           Case{{Order::conv_first, 8, 1}, {16, 3, 5, 5}},
                                           Case{{Order::conv_depthwise, 8, 1}, {24, 1, 3, 3}},
                                           Case{{Order::column_block, 8, 6}, {5, 96}}));

TEST(Layout, ABlockedPixelHoldsNeighbouringChannels) {
  const Shape shape{1, 16, 2, 2};
  const Layout layout{Order::channel_block, 8, 1};
  // channel 9, pixel 3: second block, fourth pixel, second lane
  EXPECT_EQ(offset_in(layout, shape, 9 * 4 + 3), (1 * 4 + 3) * 8 + 1);
}

TEST(Layout, ColumnsFollowTheBlockedImage) {
  const Shape image{1, 16, 2, 3};
  const Shape row{1, 96};
  for (std::int64_t i = 0; i < 96; ++i)
    EXPECT_EQ(offset_in({Order::column_block, 8, 6}, row, i), offset_in({Order::channel_block, 8, 1}, image, i));
}

}  // namespace
}  // namespace trifold
