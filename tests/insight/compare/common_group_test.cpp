// The group of batch norm that plans of one job have in common.
#include "insight/compare/common_group.h"

#include <vector>

#include <gtest/gtest.h>

namespace trifold {
namespace {

std::int64_t common(const std::vector<BatchParts>& plans, std::int64_t wanted) {
  return common_bn_group(plans, wanted);
}

TEST(CommonGroup, IsWhatTheJobAsksForWhereAllCan) {
  EXPECT_EQ(common({{128, 1}}, 128), 128);
  EXPECT_EQ(common({{128, 1}}, 16), 16);
  EXPECT_EQ(common({{128, 1}, {128, 2}, {128, 4}}, 128), 128) << "a group may lie on all replicas";
}

TEST(CommonGroup, IsNoLargerThanAMicroBatch) {
  EXPECT_EQ(common({{128, 1}, {32, 1}}, 128), 32);
  EXPECT_EQ(common({{128, 1}, {128, 2}, {32, 1}, {64, 2}}, 128), 32);
}

// Each of two plans can honour a larger group than both.
TEST(CommonGroup, SuitsEveryPlan) {
  EXPECT_EQ(common({{24, 1}}, 96), 24);
  EXPECT_EQ(common({{96, 3}}, 96), 96);
  EXPECT_EQ(common({{24, 1}, {96, 3}}, 96), 8);
  EXPECT_EQ(common({{9, 1}, {8, 1}}, 72), 1);
}

}  // namespace
}  // namespace trifold
