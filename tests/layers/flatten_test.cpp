// flatten: a view of images as rows.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(FlattenLayer, JoinsAllButTheBatch) {
  EXPECT_EQ(shape_answer({.type = "flatten", .in = {{4, 3, 5, 2}}}), "4x30");
  EXPECT_EQ(shape_answer({.type = "flatten", .in = {{4, 30}}}), "4x30");
}

TEST(FlattenLayer, IsAViewBothWays) {
  EXPECT_EQ(nodes_of({.type = "flatten", .in = {{4, 3, 5, 2}}}), (Nodes{"F reshape (x) -> y", "B reshape (dy) -> dx"}));
}

}  // namespace
}  // namespace trifold::test
