// The reference updates are those of torch.optim: three steps on four parameters, against what PyTorch 2 computes.
#include "kernels/ops/optimizer.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "support/op_runner.h"

namespace trifold::test {
namespace {

HostTensor floats(const std::vector<float>& values) {
  HostTensor tensor{.desc = {Shape{static_cast<std::int64_t>(values.size())}}};
  tensor.data.resize(tensor.desc.bytes());
  std::copy(values.begin(), values.end(), tensor.as().begin());
  return tensor;
}

struct Trained {
  std::vector<float> weights;
  double last_norm = 0;
};

// The learning rate of update i is 0.1 * rate_decay^i.
Trained train(const OptimizerUpdate& op, std::vector<float> weights, const std::vector<std::vector<float>>& gradients,
              double rate_decay = 1) {
  std::vector<HostTensor> in = {floats(weights), {}};
  for (int state = 0; state < op.state_count(); ++state) in.push_back(floats(std::vector<float>(weights.size())));
  std::vector<OpOutput> out = {{.desc = in[0].desc, .updates = 0}};
  for (int state = 0; state < op.state_count(); ++state) out.push_back({.desc = in[0].desc, .updates = 2 + state});
  out.push_back({.desc = {Shape{1}, DType::f64}});
  OpRun run{.backend = reference_backend(), .context = {.learning_rate = 0.1}};
  for (const std::vector<float>& gradient : gradients) {
    ++run.context.updates;
    in[1] = floats(gradient);
    auto made = run_op(run, op, in, out);
    weights.assign(made[0].as().begin(), made[0].as().end());
    in[0] = made[0];
    for (std::size_t state = 0; state + 2 < made.size(); ++state) in[2 + state] = made[1 + state];
    if (gradient == gradients.back()) return {weights, made.back().number(0)};
    run.context.learning_rate *= rate_decay;
  }
  return {weights};
}

struct GoldenCase {
  const char* name;
  OptimizerArgs args;
  std::vector<float> weights;
};

class ReferenceOptimizer : public testing::TestWithParam<GoldenCase> {};

TEST_P(ReferenceOptimizer, MatchesTorch) {
  OptimizerUpdate op;
  op.args = GetParam().args;
  op.segments = {{0, 3}, {3, 4}};
  const auto weights = train(op, {0.5f, -1.25f, 2.0f, 0.1f},
                             {{0.3f, -0.2f, 0.8f, -0.05f}, {-0.1f, 0.4f, 0.6f, 0.2f}, {0.25f, 0.15f, -0.7f, 0.0f}})
                           .weights;
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], GetParam().weights[i], 1e-6) << i;
}

const GoldenCase kGolden[] = {
    {"sgd", {.weight_decay = 0.01}, {0.4535515f, -1.2812537f, 1.9242259f, 0.0847103f}},
    {"momentum", {.momentum = 0.9, .weight_decay = 0.01}, {0.4100014f, -1.2798295f, 1.7283535f, 0.0749905f}},
    {"nesterov",
     {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
     {0.3726851f, -1.3081375f, 1.6802497f, 0.0622122f}},
    {"clip", {.momentum = 0.9, .clip_norm = 0.5}, {0.4498487f, -1.2793895f, 1.8473252f, 0.0825422f}},
    {"adam", {.kind = OptimizerKind::adam, .weight_decay = 0.01}, {0.2935604f, -1.2266501f, 1.7737285f, 0.0993318f}},
    {"adamw", {.kind = OptimizerKind::adamw, .weight_decay = 0.01}, {0.2948188f, -1.2301818f, 1.7704939f, 0.1003562f}},
    {"adagrad",
     {.kind = OptimizerKind::adagrad, .weight_decay = 0.01, .eps = 1e-10},
     {0.3677781f, -1.2674119f, 1.8950338f, 0.1023237f}},
    {"adagrad_initial",
     {.kind = OptimizerKind::adagrad, .eps = 1e-6, .initial_accumulator = 0.1},
     {0.4047412f, -1.2959909f, 1.9053079f, 0.0626362f}},
};

INSTANTIATE_TEST_SUITE_P(Torch, ReferenceOptimizer, testing::ValuesIn(kGolden),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(ReferenceOptimizerRules, DecayExemptsSegments) {
  OptimizerUpdate op;
  op.args.weight_decay = 1;
  op.segments = {{0, 1, true}, {1, 2, false}};
  const auto weights = train(op, {1, 1}, {{0, 0}}).weights;
  EXPECT_FLOAT_EQ(weights[0], 0.9f);
  EXPECT_FLOAT_EQ(weights[1], 1);
}

TEST(ReferenceOptimizerRules, ClippingReportsTheNormBeforeIt) {
  OptimizerUpdate op;
  op.args.clip_norm = 1;
  op.segments = {{0, 1}, {1, 2}};
  EXPECT_NEAR(train(op, {1, 1}, {{3, 4}}).last_norm, 5, 1e-12);
  op.args.clip_norm = 0;
  EXPECT_EQ(train(op, {1, 1}, {{3, 4}}).last_norm, 0);
}

// torch.optim.Adagrad by hand: the sum of squares is 7 + 9 = 16, then 16 + 400 = 416.
TEST(ReferenceOptimizerRules, AdagradDividesByTheRootOfTheSumOfSquares) {
  OptimizerUpdate op;
  op.args = {.kind = OptimizerKind::adagrad, .eps = 0, .initial_accumulator = 7};
  op.segments = {{0, 1}};
  EXPECT_NEAR(train(op, {1}, {{3}}).weights[0], 1 - 0.1 * 3 / 4, 1e-7);
  EXPECT_NEAR(train(op, {1}, {{3}, {20}}).weights[0], 1 - 0.1 * 3 / 4 - 0.1 * 20 / std::sqrt(416), 1e-7);
}

// |w| = 5, |g| = 10: the local rate is 0.02 * 5 / (10 + 0.1 * 5).
TEST(ReferenceOptimizerRules, LarsScalesEachParameterByItsNorms) {
  OptimizerUpdate op;
  op.args = {.kind = OptimizerKind::lars, .momentum = 0.9, .weight_decay = 0.1, .trust = 0.02};
  op.segments = {{0, 2, true}, {2, 3, false}, {3, 4, true}};
  const auto weights = train(op, {3, 4, 1, 0}, {{6, 8, 2, 2}}).weights;
  const double local = 0.02 * 5 / 10.5;
  EXPECT_NEAR(weights[0], 3 - 0.1 * local * (6 + 0.1 * 3), 1e-6);
  EXPECT_NEAR(weights[1], 4 - 0.1 * local * (8 + 0.1 * 4), 1e-6);
  EXPECT_NEAR(weights[2], 1 - 0.1 * 2, 1e-6);  // exempt: plain sgd
  EXPECT_NEAR(weights[3], -0.1 * 2, 1e-6);     // a norm of 0: local rate 1
}

// Algorithm 1 of the paper by hand: v = m * v + lr * local * g; w -= v. With the rate outside the velocity, as in sgd,
// the second update would multiply the first gradient by the second rate.
TEST(ReferenceOptimizerRules, LarsKeepsTheLearningRateInTheVelocity) {
  OptimizerUpdate op;
  op.args = {.kind = OptimizerKind::lars, .momentum = 0.9, .trust = 0.02};
  op.segments = {{0, 1, true}, {1, 2, false}};
  const auto weights = train(op, {5, 1}, {{10, 2}, {20, 4}}, 0.1).weights;
  const double first = 0.1 * 0.02 * 5;  // the local rate divides by the gradient
  const double second = 0.9 * first + 0.01 * 0.02 * (5 - first);
  EXPECT_NEAR(weights[0], 5 - first - second, 1e-6);
  EXPECT_NEAR(weights[1], 1 - 0.1 * 2 - (0.9 * 0.1 * 2 + 0.01 * 4), 1e-6);
  op.args.kind = OptimizerKind::sgd;
  EXPECT_NEAR(train(op, {5, 1}, {{10, 2}, {20, 4}}, 0.1).weights[1], 1 - 0.1 * 2 - 0.01 * (0.9 * 2 + 4), 1e-6);
}

}  // namespace
}  // namespace trifold::test
