// dropout: random in training, the identity in evaluation.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

const LayerQuestion kDropout{.type = "dropout", .fields = {{"p", 0.25}}, .in = {{4, 7}}};

TEST(DropoutLayer, KeepsTheShape) {
  EXPECT_EQ(shape_answer(kDropout), "4x7");
}

TEST(DropoutLayer, RefusesToDropEverything) {
  EXPECT_EQ(shape_answer({.type = "dropout", .fields = {{"p", 1.0}}, .in = {{4, 7}}}),
            "error: has p 1: that drops everything; p must be below 1");
}

TEST(DropoutLayer, DropsInTrainingOnly) {
  EXPECT_EQ(nodes_of(kDropout), (Nodes{"F dropout.forward p 0.25 (x) -> y", "B dropout.backward p 0.25 (dy) -> dx"}));
  LayerQuestion question = kDropout;
  question.mode = Mode::evaluate;
  EXPECT_EQ(nodes_of(question), Nodes{"F reshape (x) -> y"});
}

}  // namespace
}  // namespace trifold::test
