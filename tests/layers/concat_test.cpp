// concat: inputs that differ in channels only.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(ConcatLayer, AddsUpChannels) {
  EXPECT_EQ(shape_answer({.type = "concat", .in = {{4, 3, 5, 5}, {4, 8, 5, 5}, {4, 1, 5, 5}}}), "4x12x5x5");
  EXPECT_EQ(shape_answer({.type = "concat", .in = {{4, 3}, {4, 8}}}), "4x11");
}

TEST(ConcatLayer, RefusesOtherImages) {
  EXPECT_EQ(shape_answer({.type = "concat", .in = {{4, 3, 5, 5}, {4, 3, 5, 6}}}),
            "error: joins inputs that differ in channels only, but input 1 is 4x3x5x5 and input 2 is 4x3x5x6");
  EXPECT_EQ(shape_answer({.type = "concat", .in = {{4, 3, 5, 5}, {4, 75}}}),
            "error: joins inputs that differ in channels only, but input 1 is 4x3x5x5 and input 2 is 4x75");
  EXPECT_EQ(shape_answer({.type = "concat", .in = {{4, 3}}}), "error: needs two or more inputs");
}

TEST(ConcatLayer, CutsTheGradientForInputsThatWantIt) {
  LayerQuestion question{.type = "concat", .in = {{4, 3}, {4, 8}, {4, 2}}};
  question.wants_gradient = {true, false, true};
  EXPECT_EQ(nodes_of(question), (Nodes{"F concat (x0, x1, x2) -> y", "B split_channels (dy) -> dx0, dx2"}));
  question.wants_gradient = {false, false, false};
  EXPECT_EQ(nodes_of(question), Nodes{"F concat (x0, x1, x2) -> y"});
}

}  // namespace
}  // namespace trifold::test
