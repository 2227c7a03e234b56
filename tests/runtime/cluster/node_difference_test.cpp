#include "runtime/cluster/node_difference.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace trifold {
namespace {

using Tensors = std::vector<std::vector<float>>;

const std::vector<ServedTensor> kWeightAndMean = {{.name = "weight", .elements = 2},
                                                  {.name = "mean", .elements = 1, .trained = false},
                                                  {.name = "bias", .elements = 1}};

TEST(NodeDifferenceTest, TheDistanceIsByTheServersNormAndOfWhatIsTrained) {
  const Tensors common = {{3, 0}, {7}, {4}};
  EXPECT_EQ(relative_distance(kWeightAndMean, common, common), 0);
  EXPECT_DOUBLE_EQ(relative_distance(kWeightAndMean, {{3, 0}, {100}, {5}}, common), 0.2);
  EXPECT_DOUBLE_EQ(relative_distance(kWeightAndMean, {{6, 0}, {7}, {8}}, common), 1);
}

TEST(NodeDifferenceTest, ATensorThatIsTheNodesOwnIsLeftOut) {
  EXPECT_DOUBLE_EQ(relative_distance(kWeightAndMean, {{3, 0}, {7}, {5}}, {{}, {7}, {4}}), 0.25);
}

TEST(NodeDifferenceTest, WhatIsNoNumberIsNotClose) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(relative_distance(kWeightAndMean, {{nan, 0}, {7}, {4}}, {{3, 0}, {7}, {4}}),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(mean_kl(std::vector{nan, 0.0F}, std::vector{0.0F, 0.0F}, 2), std::numeric_limits<double>::infinity());
}

// Probabilities 3/4 and 1/4 against 1/2 and 1/2; and the other way round it is another number.
TEST(NodeDifferenceTest, TheDivergenceIsOfTheNodesProbabilitiesFromTheCommonOnes) {
  const auto logit = static_cast<float>(std::log(3.0));
  const std::vector<float> node = {logit + 5, 5, 1, 1};
  const std::vector<float> common = {2, 2, -1, -1};
  const double first = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
  EXPECT_NEAR(mean_kl(node, common, 2), first / 2, 1e-7);  // the second sample is said alike
  const double other = 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(2.0);
  EXPECT_NEAR(mean_kl(common, node, 2), other / 2, 1e-7);
  EXPECT_EQ(mean_kl(node, node, 2), 0);
}

}  // namespace
}  // namespace trifold
