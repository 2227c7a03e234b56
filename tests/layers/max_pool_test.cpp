// max_pool: the window's shape rule, and the argmax that training keeps.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

LayerQuestion max_pool(Pair kernel, const Shape& x) {
  return {.type = "max_pool", .fields = {{"kernel", kernel}}, .in = {x}};
}

TEST(MaxPoolLayer, StridesByItsKernelUnlessTold) {
  LayerQuestion question = max_pool({2, 3}, {4, 8, 7, 9});
  EXPECT_EQ(shape_answer(question), "4x8x3x3");
  question.fields.emplace_back("stride", Pair{1, 2});
  EXPECT_EQ(shape_answer(question), "4x8x6x4");
  question.fields.emplace_back("pad", Pair{1, 1});
  EXPECT_EQ(shape_answer(question), "4x8x8x5");
}

TEST(MaxPoolLayer, RefusesWindowsThatDoNotFit) {
  EXPECT_EQ(shape_answer(max_pool({2, 2}, {4, 8})), "error: needs an input of [N, C, H, W] but gets 4x8");
  EXPECT_EQ(shape_answer(max_pool({2, 5}, {4, 8, 4, 4})),
            "error: kernel 5 does not fit its input's width 4 with pad 0");
  LayerQuestion padded = max_pool({3, 3}, {4, 8, 4, 4});
  padded.fields.emplace_back("pad", Pair{2, 0});
  EXPECT_EQ(shape_answer(padded), "error: pad 2 is more than half of its kernel 3");
  EXPECT_EQ(shape_answer(max_pool({32, 16}, {4, 8, 64, 64})),
            "error: kernel 32x16 is too large: a window has at most 256 places");
}

TEST(MaxPoolLayer, KeepsTheArgmaxInTrainingOnly) {
  LayerQuestion question = max_pool({2, 2}, {4, 8, 4, 4});
  EXPECT_EQ(nodes_of(question), (Nodes{"F max_pool.forward kernel 2x2 stride 2x2 pad 0x0 (x) -> y, argmax",
                                       "B max_pool.backward kernel 2x2 stride 2x2 pad 0x0 (dy, argmax) -> dx"}));
  question.mode = Mode::evaluate;
  EXPECT_EQ(nodes_of(question), Nodes{"F max_pool.forward kernel 2x2 stride 2x2 pad 0x0 (x) -> y"});
}

}  // namespace
}  // namespace trifold::test
