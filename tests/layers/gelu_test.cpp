// gelu: keeps the shape; its gradient reads its input.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(GeluLayer, KeepsTheShape) {
  EXPECT_EQ(shape_answer({.type = "gelu", .in = {{4, 3, 5, 5}}}), "4x3x5x5");
  EXPECT_EQ(shape_answer({.type = "gelu", .in = {{4, 7}}}), "4x7");
}

TEST(GeluLayer, AddsItsNodes) {
  const LayerQuestion question{.type = "gelu", .in = {{4, 7}}};
  EXPECT_EQ(nodes_of(question),
            (Nodes{"F activation.forward gelu (x) -> y", "B activation.backward gelu (dy, x) -> dx"}));
}

}  // namespace
}  // namespace trifold::test
