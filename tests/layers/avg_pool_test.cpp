// avg_pool: the window's shape rule and its nodes.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

const LayerQuestion kAvgPool{.type = "avg_pool", .fields = {{"kernel", Pair{3, 3}}}, .in = {{4, 8, 7, 9}}};

TEST(AvgPoolLayer, StridesByItsKernelUnlessTold) {
  EXPECT_EQ(shape_answer(kAvgPool), "4x8x2x3");
}

TEST(AvgPoolLayer, RefusesWindowsThatDoNotFit) {
  LayerQuestion question = kAvgPool;
  question.in = {{4, 8, 2, 9}};
  EXPECT_EQ(shape_answer(question), "error: kernel 3 does not fit its input's height 2 with pad 0");
}

TEST(AvgPoolLayer, AddsItsNodes) {
  EXPECT_EQ(nodes_of(kAvgPool), (Nodes{"F avg_pool.forward kernel 3x3 stride 3x3 pad 0x0 (x) -> y",
                                       "B avg_pool.backward kernel 3x3 stride 3x3 pad 0x0 (dy) -> dx"}));
}

}  // namespace
}  // namespace trifold::test
