// batch_norm: group statistics in training, running averages in evaluation.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

const LayerQuestion kBatchNorm{.type = "batch_norm", .in = {{4, 3, 5, 5}}};

TEST(BatchNormLayer, KeepsTheShape) {
  EXPECT_EQ(shape_answer(kBatchNorm), "4x3x5x5");
  EXPECT_EQ(shape_answer({.type = "batch_norm", .in = {{4, 7}}}), "4x7");
}

TEST(BatchNormLayer, RefusesWhatHasNoStatistics) {
  LayerQuestion question = kBatchNorm;
  question.in = {{4, 3, 5}};
  EXPECT_EQ(shape_answer(question), "error: needs an input of [N, C, H, W] or [N, C] but gets 4x3x5");
  question.in = {{4, 3}};
  question.context.bn_group = 1;
  EXPECT_EQ(shape_answer(question),
            "error: has one value a channel to take statistics of: bn_group must be at least 2 here");
  question.context.bn_group = 3;
  EXPECT_EQ(shape_answer(question), "error: bn_group 3 does not divide the 4 samples of a micro-batch");
}

TEST(BatchNormLayer, TrainsOnGroups) {
  EXPECT_EQ(nodes_of(kBatchNorm),
            (Nodes{"F batch_norm.statistics group 2 (x, running_mean, running_var) -> "
                   "mean, istd, running_mean, running_var",
                   "F batch_norm.apply group 2 (x, mean, istd, weight, bias) -> y",
                   "B batch_norm.backward_reduce group 2 (dy, x, mean, istd, weight, bias) -> "
                   "sum_d, sum_dx, dweight, dbias",
                   "B batch_norm.backward_input group 2 (dy, x, mean, istd, weight, bias, sum_d, sum_dx) -> dx"}));
}

TEST(BatchNormLayer, EvaluatesWithRunningAveragesOfAnyBatch) {
  LayerQuestion question = kBatchNorm;
  question.mode = Mode::evaluate;
  question.context.bn_group = 3;
  EXPECT_EQ(nodes_of(question), (Nodes{"F batch_norm.running (running_mean, running_var) -> mean, istd",
                                       "F batch_norm.apply group 4 (x, mean, istd, weight, bias) -> y"}));
}

TEST(BatchNormLayer, SumsForItsParametersEvenWhereTheInputNeedsNoGradient) {
  LayerQuestion question = kBatchNorm;
  question.wants_gradient = {false};
  EXPECT_EQ(nodes_of(question).size(), 3u);
}

TEST(BatchNormLayer, StartsAsTheIdentity) {
  const auto parameters = parameters_of(kBatchNorm);
  ASSERT_EQ(parameters.size(), 4u);
  for (const ParameterSpec& parameter : parameters) {
    const bool one = parameter.name == "weight" || parameter.name == "running_var";
    EXPECT_EQ(parameter.init.constant, one ? 1 : 0) << parameter.name;
    EXPECT_EQ(parameter.trained, parameter.name == "weight" || parameter.name == "bias") << parameter.name;
    EXPECT_FALSE(parameter.decay) << parameter.name;
  }
}

}  // namespace
}  // namespace trifold::test
