#include "insight/work/median.h"

#include <vector>

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(Median, TheMedianIsOneOfTheValues) {
  EXPECT_EQ(median_of(std::vector<double>{5}), 0u);
  EXPECT_EQ(median_of(std::vector<double>{3, 1, 2}), 2u);
  EXPECT_EQ(median_of(std::vector<double>{4, 1, 3, 2}), 3u) << "the lower of two";
}

}  // namespace
}  // namespace trifold
