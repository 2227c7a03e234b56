// conv2d: the window's shape rule, groups, and its nodes.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

LayerQuestion conv2d(const Shape& x, std::vector<std::pair<std::string, FieldValue>> more = {}) {
  LayerQuestion question{.type = "conv2d", .fields = {{"out", std::int64_t{8}}, {"kernel", Pair{3, 3}}}, .in = {x}};
  for (auto& field : more) question.fields.push_back(std::move(field));
  return question;
}

TEST(Conv2dLayer, FollowsKernelStridePadAndDilation) {
  EXPECT_EQ(shape_answer(conv2d({4, 3, 7, 9})), "4x8x5x7");
  EXPECT_EQ(shape_answer(conv2d({4, 3, 7, 9}, {{"padding", std::string("same")}})), "4x8x7x9");
  EXPECT_EQ(shape_answer(conv2d({4, 3, 7, 9}, {{"stride", Pair{2, 2}}, {"pad", Pair{1, 1}}})), "4x8x4x5");
  EXPECT_EQ(shape_answer(conv2d({4, 3, 7, 9}, {{"dilation", Pair{2, 2}}})), "4x8x3x5");
}

TEST(Conv2dLayer, RefusesWhatDoesNotFit) {
  EXPECT_EQ(shape_answer(conv2d({4, 3})), "error: needs an input of [N, C, H, W]");
  EXPECT_EQ(shape_answer(conv2d({4, 3, 2, 9})),
            "error: kernel 3 (dilation 1) does not fit its input's height 2 with pad 0");
  EXPECT_EQ(shape_answer(conv2d({4, 6, 7, 9}, {{"groups", std::int64_t{4}}})),
            "error: groups 4 must divide both its 6 input channels and its 8 output channels");
}

TEST(Conv2dLayer, AddsItsNodes) {
  EXPECT_EQ(nodes_of(conv2d({4, 4, 7, 9}, {{"groups", std::int64_t{0}}})),
            (Nodes{"F conv2d.forward stride 1 pad 0 groups 4 bias (x, weight, bias) -> y",
                   "B conv2d.backward_data stride 1 pad 0 groups 4 (dy, weight) -> dx",
                   "W conv2d.backward_weights stride 1 pad 0 groups 4 bias (x, dy) -> dweight, dbias"}));
}

}  // namespace
}  // namespace trifold::test
