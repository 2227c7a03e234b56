// dropout2d: as dropout, of whole channels of images.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

const LayerQuestion kDropout2d{.type = "dropout2d", .fields = {{"p", 0.25}}, .in = {{4, 7, 3, 3}}};

TEST(Dropout2dLayer, KeepsTheShape) {
  EXPECT_EQ(shape_answer(kDropout2d), "4x7x3x3");
}

TEST(Dropout2dLayer, RefusesFeatures) {
  EXPECT_EQ(shape_answer({.type = "dropout2d", .in = {{4, 7}}}),
            "error: needs an input of [N, C, H, W] but gets 4x7: use dropout for features");
}

TEST(Dropout2dLayer, DropsChannelsInTrainingOnly) {
  EXPECT_EQ(nodes_of(kDropout2d),
            (Nodes{"F dropout.forward p 0.25 channels (x) -> y", "B dropout.backward p 0.25 channels (dy) -> dx"}));
  LayerQuestion question = kDropout2d;
  question.mode = Mode::evaluate;
  EXPECT_EQ(nodes_of(question), Nodes{"F reshape (x) -> y"});
}

}  // namespace
}  // namespace trifold::test
