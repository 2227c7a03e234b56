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

TEST(Conv2dLayer, PadsToTheSameExtent) {
  const auto same = [](Pair kernel, std::vector<std::pair<std::string, FieldValue>> more = {}) {
    LayerQuestion question = conv2d({4, 3, 12, 9}, {{"padding", std::string("same")}});
    question.fields[1].second = kernel;
    for (auto& field : more) question.fields.push_back(std::move(field));
    return shape_answer(question);
  };
  EXPECT_EQ(same({3, 3}), "4x8x12x9");
  EXPECT_EQ(same({1, 5}), "4x8x12x9");
  EXPECT_EQ(same({3, 5}, {{"dilation", Pair{3, 2}}}), "4x8x12x9");
  EXPECT_EQ(same({2, 4}, {{"dilation", Pair{2, 2}}}), "4x8x12x9") << "3 and 7 pixels wide";
  EXPECT_EQ(same({3, 4}),
            "error: padding \"same\" would pad its width of kernel 4 (dilation 1) by 1 on one side and 2 on the other; "
            "use an odd kernel, or \"pad\"");
  EXPECT_EQ(same({3, 3}, {{"stride", Pair{2, 2}}}),
            "error: padding \"same\" needs stride 1, not 2; use \"pad\": [1, 1] to pad by half the kernel");
  EXPECT_EQ(same({3, 3}, {{"pad", Pair{1, 1}}}), "error: has both \"pad\" and padding \"same\"; remove one of them");
}

TEST(Conv2dLayer, AddsItsNodes) {
  EXPECT_EQ(nodes_of(conv2d({4, 4, 7, 9}, {{"groups", std::int64_t{0}}})),
            (Nodes{"F conv2d.forward stride 1 pad 0 groups 4 bias (x, weight, bias) -> y",
                   "B conv2d.backward_data stride 1 pad 0 groups 4 (dy, weight) -> dx",
                   "W conv2d.backward_weights stride 1 pad 0 groups 4 bias (x, dy) -> dweight, dbias"}));
}

}  // namespace
}  // namespace trifold::test
