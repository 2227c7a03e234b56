// tanh: keeps the shape; its gradient reads its output.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(TanhLayer, KeepsTheShape) {
  EXPECT_EQ(shape_answer({.type = "tanh", .in = {{4, 3, 5, 5}}}), "4x3x5x5");
  EXPECT_EQ(shape_answer({.type = "tanh", .in = {{4, 7}}}), "4x7");
}

TEST(TanhLayer, AddsItsNodes) {
  const LayerQuestion question{.type = "tanh", .in = {{4, 7}}};
  EXPECT_EQ(nodes_of(question),
            (Nodes{"F activation.forward tanh (x) -> y", "B activation.backward tanh (dy, y) -> dx"}));
}

}  // namespace
}  // namespace trifold::test
