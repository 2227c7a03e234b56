// add: inputs of one shape, summed pair by pair.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(AddLayer, KeepsTheShape) {
  EXPECT_EQ(shape_answer({.type = "add", .in = {{4, 3, 5, 5}, {4, 3, 5, 5}}}), "4x3x5x5");
}

TEST(AddLayer, RefusesOtherShapesAndLoneInputs) {
  EXPECT_EQ(shape_answer({.type = "add", .in = {{4, 3, 5, 5}, {4, 3, 5, 5}, {4, 3, 5, 6}}}),
            "error: adds inputs of one shape, but input 1 is 4x3x5x5 and input 3 is 4x3x5x6");
  EXPECT_EQ(shape_answer({.type = "add", .in = {{4, 3}}}), "error: needs two or more inputs");
}

TEST(AddLayer, ChainsMoreThanTwoAndPassesItsGradientOn) {
  LayerQuestion question{.type = "add", .in = {{4, 3}, {4, 3}, {4, 3}}};
  question.wants_gradient = {true, false, true};
  EXPECT_EQ(nodes_of(question),
            (Nodes{"F add (x0, x1) -> sum1", "F add (sum1, x2) -> y", "x0 gradient = dy", "x2 gradient = dy"}));
}

}  // namespace
}  // namespace trifold::test
