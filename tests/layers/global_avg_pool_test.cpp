// global_avg_pool: [N,C,H,W] -> [N,C].
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(GlobalAvgPoolLayer, KeepsChannels) {
  EXPECT_EQ(shape_answer({.type = "global_avg_pool", .in = {{4, 8, 7, 9}}}), "4x8");
}

TEST(GlobalAvgPoolLayer, RefusesFeatures) {
  EXPECT_EQ(shape_answer({.type = "global_avg_pool", .in = {{4, 8}}}),
            "error: needs an input of [N, C, H, W] but gets 4x8");
}

TEST(GlobalAvgPoolLayer, AddsItsNodes) {
  EXPECT_EQ(nodes_of({.type = "global_avg_pool", .in = {{4, 8, 7, 9}}}),
            (Nodes{"F global_avg_pool.forward (x) -> y", "B global_avg_pool.backward (dy) -> dx"}));
}

}  // namespace
}  // namespace trifold::test
