// linear: [N,I] -> [N,out].
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

const LayerQuestion kLinear{.type = "linear", .fields = {{"out", std::int64_t{5}}}, .in = {{4, 7}}};

TEST(LinearLayer, MapsFeatures) {
  EXPECT_EQ(shape_answer(kLinear), "4x5");
}

TEST(LinearLayer, RefusesImages) {
  LayerQuestion question = kLinear;
  question.in = {{4, 3, 8, 8}};
  EXPECT_EQ(shape_answer(question), "error: needs an input of [N, F] but gets 4x3x8x8: put a flatten layer before it");
}

TEST(LinearLayer, AddsItsNodes) {
  EXPECT_EQ(nodes_of(kLinear),
            (Nodes{"F linear.forward bias (x, weight, bias) -> y", "B linear.backward_data (dy, weight) -> dx",
                   "W linear.backward_weights bias (x, dy) -> dweight, dbias"}));
}

TEST(LinearLayer, LeavesOutWhatNobodyNeeds) {
  LayerQuestion question = kLinear;
  question.fields.emplace_back("bias", false);
  question.wants_gradient = {false};
  EXPECT_EQ(nodes_of(question),
            (Nodes{"F linear.forward (x, weight) -> y", "W linear.backward_weights (x, dy) -> dweight"}));
}

TEST(LinearLayer, DecaysWeightsAlone) {
  const auto parameters = parameters_of(kLinear);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].shape, (Shape{5, 7}));
  EXPECT_TRUE(parameters[0].decay);
  EXPECT_FALSE(parameters[1].decay);
}

}  // namespace
}  // namespace trifold::test
