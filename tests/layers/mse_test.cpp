// mse: predictions against float targets.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(MseLayer, Reports) {
  EXPECT_EQ(shape_answer({.type = "mse", .in = {{4, 3}}}), "2");
}

TEST(MseLayer, RefusesImages) {
  EXPECT_EQ(shape_answer({.type = "mse", .in = {{4, 3, 2, 2}}}),
            "error: needs predictions of [N, F] but gets 4x3x2x2: put a flatten layer before it");
}

TEST(MseLayer, MakesItsGradientInTrainingOnly) {
  LayerQuestion question{.type = "mse", .in = {{4, 3}}};
  EXPECT_EQ(nodes_of(question), (Nodes{"F mse (x, targets, labels) -> y, gradient", "x gradient = gradient"}));
  question.mode = Mode::evaluate;
  EXPECT_EQ(nodes_of(question), Nodes{"F mse (x, targets, labels) -> y"});
}

}  // namespace
}  // namespace trifold::test
