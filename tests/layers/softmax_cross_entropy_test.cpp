// softmax_cross_entropy: logits against labels; the gradient is made with the loss.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

const LayerQuestion kLoss{.type = "softmax_cross_entropy", .in = {{4, 10}}};

TEST(SoftmaxCrossEntropyLayer, Reports) {
  EXPECT_EQ(shape_answer(kLoss), "2");
}

TEST(SoftmaxCrossEntropyLayer, RefusesWrongLogits) {
  LayerQuestion question = kLoss;
  question.in = {{4, 10, 1, 1}};
  EXPECT_EQ(shape_answer(question), "error: needs logits of [N, K] but gets 4x10x1x1: put a flatten layer before it");
  question.in = {{4, 12}};
  EXPECT_EQ(shape_answer(question), "error: gets 12 logits a sample but the model has 10 classes");
  question.context.classes = 0;
  EXPECT_EQ(shape_answer(question), "2");
  question.fields.emplace_back("class_weights", std::vector<double>{1, 2, 3});
  EXPECT_EQ(shape_answer(question), "error: has 3 class_weights for 12 logits");
}

TEST(SoftmaxCrossEntropyLayer, MakesItsGradientInTrainingOnly) {
  EXPECT_EQ(nodes_of(kLoss),
            (Nodes{"F cross_entropy with softmax (x, labels) -> y, gradient", "x gradient = gradient"}));
  LayerQuestion question = kLoss;
  question.mode = Mode::evaluate;
  EXPECT_EQ(nodes_of(question), Nodes{"F cross_entropy with softmax (x, labels) -> y"});
}

}  // namespace
}  // namespace trifold::test
