// What finite differences cannot tell of the reference: running averages, reports, random streams, and layouts.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/ops/batch_norm.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/shape_ops.h"
#include "support/op_runner.h"

namespace trifold::test {
namespace {

template <class T>
HostTensor tensor(const Shape& shape, DType dtype, const std::vector<T>& values) {
  HostTensor made{.desc = {shape, dtype}};
  made.data.resize(made.desc.bytes());
  std::copy(values.begin(), values.end(), made.as<T>().begin());
  return made;
}
HostTensor floats(const Shape& shape, const std::vector<float>& values) {
  return tensor(shape, DType::f32, values);
}

const OpRun kRun{.backend = reference_backend(), .context = {.seed = 3, .first_sample = 100}};

TEST(ReferenceBatchNorm, RunningAveragesFollowTheGroupsInOrder) {
  BatchNormStatistics op;
  op.group = 2;
  op.eps = 0;
  op.momentum = 0.5;
  // Groups {1, 3} and {10, 20}: means 2 and 15, biased variances 1 and 25, unbiased 2 and 50.
  const auto made = run_op(kRun, op, std::vector{floats({4, 1}, {1, 3, 10, 20}), floats({1}, {0}), floats({1}, {1})},
                           std::vector<OpOutput>{{.desc = {Shape{2, 1}}},
                                                 {.desc = {Shape{2, 1}}},
                                                 {.desc = {Shape{1}}, .updates = 1},
                                                 {.desc = {Shape{1}}, .updates = 2}});
  EXPECT_FLOAT_EQ(made[0].as()[0], 2);
  EXPECT_FLOAT_EQ(made[0].as()[1], 15);
  EXPECT_FLOAT_EQ(made[1].as()[0], 1);
  EXPECT_FLOAT_EQ(made[1].as()[1], 0.2f);
  EXPECT_FLOAT_EQ(made[2].as()[0], 0.5f * (0.5f * 0 + 0.5f * 2) + 0.5f * 15);
  EXPECT_FLOAT_EQ(made[3].as()[0], 0.5f * (0.5f * 1 + 0.5f * 2) + 0.5f * 50);
}

TEST(ReferenceCrossEntropy, ReportsLossOverTheGlobalBatchAndCorrectSamples) {
  CrossEntropy op;
  op.gradient = false;
  op.global_batch = 8;
  // Equal logits: log 4 each, and the first class counts as the answer. The second row is not there.
  const auto made = run_op(
      kRun, op,
      std::vector{floats({3, 4}, std::vector<float>(12, 5.0f)), tensor<std::int32_t>({3}, DType::i32, {0, -1, 2})},
      std::vector<OpOutput>{{.desc = {Shape{2}, DType::f64}}});
  EXPECT_NEAR(made[0].number(0), 2 * std::log(4.0) / 8, 1e-12);
  EXPECT_EQ(made[0].number(1), 1);
}

// torch.nn.CrossEntropyLoss(weight=[0.5, 2, 3], label_smoothing=0.3), of PyTorch 2.15 in double.
TEST(ReferenceCrossEntropy, WithClassWeightsIsPyTorchs) {
  CrossEntropy op;
  op.global_batch = 4;
  op.smoothing = 0.3;
  op.class_weights = {0.5f, 2.0f, 3.0f};
  OpRun run = kRun;
  run.context.mean_class_weight = 2.125;  // of the labels 0, 2, 2 and 1
  const auto made = run_op(run, op,
                           std::vector{floats({4, 3}, {1, 2, 0.5, 0, -1, 2, 3, 0, 1, 0.5, 0.5, -2}),
                                       tensor<std::int32_t>({4}, DType::i32, {0, 2, 2, 1})},
                           std::vector<OpOutput>{{.desc = {Shape{2}, DType::f64}}, {.desc = {Shape{4, 3}}}});
  EXPECT_NEAR(made[0].number(0), 1.2291984599, 1e-9);
  const std::vector<double> gradient = {-0.022576293, 0.043021006,  -0.020444712, 0.02971968,
                                        -0.010432156, -0.019287524, 0.257183064,  -0.010432156,
                                        -0.246750908, 0.104301316,  -0.078051625, -0.026249691};
  for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(made[1].as()[i], gradient[i], 1e-7) << i;
}

std::vector<float> dropped_ones(const Shape& shape, std::int64_t first_sample, bool channels) {
  DropoutForward op;
  op.args = {.probability = 0.25, .channels = channels, .layer = 2};
  OpRun run = kRun;
  run.context.first_sample = first_sample;
  const auto ones = std::vector<float>(static_cast<std::size_t>(shape.elements()), 1.0f);
  const auto made = run_op(run, op, std::vector{floats(shape, ones)}, std::vector<OpOutput>{{.desc = {shape}}});
  return {made[0].as().begin(), made[0].as().end()};
}

TEST(ReferenceDropout, DropsTheShareItShouldAndKeepsTheMean) {
  const auto y = dropped_ones({10, 1000}, 0, false);
  const auto zeros = std::count(y.begin(), y.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(zeros), 2500, 130);  // three standard deviations
  for (const float value : y) EXPECT_TRUE(value == 0 || std::abs(value - 4.0f / 3) < 1e-6f);
}

TEST(ReferenceDropout, DependsOnTheSampleAndNotOnItsPlaceInTheBatch) {
  const auto whole = dropped_ones({4, 8, 3, 3}, 50, false);
  const auto tail = dropped_ones({2, 8, 3, 3}, 52, false);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + 2 * 72));
  EXPECT_FALSE(std::equal(tail.begin(), tail.end(), whole.begin()));
}

TEST(ReferenceDropout, TakesWholeChannels) {
  const auto y = dropped_ones({6, 8, 2, 2}, 0, true);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], y[i / 4 * 4]);
}

TEST(ReferenceReorder, MovesToTheLayoutsOffsets) {
  const Layout blocked{Order::channel_block, 8};
  std::vector<float> counting(2 * 16 * 3);
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<float>(i);
  const Shape shape{2, 16, 3, 1};
  const TensorDesc from{shape};
  const TensorDesc to{shape, DType::f32, blocked};
  const Reorder op;
  const auto kernel = reference_backend().make({.op = op, .in = {&from, 1}, .out = {&to, 1}});
  std::vector<float> moved(counting.size());
  std::byte* in = reinterpret_cast<std::byte*>(counting.data());
  std::byte* out = reinterpret_cast<std::byte*>(moved.data());
  kernel->bind({&in, 1}, {&out, 1}, nullptr);
  kernel->run({});
  // [N, C/8, pixel, 8]: the second element is channel 1, pixel 0.
  EXPECT_EQ(moved[1], 3);
  EXPECT_EQ(moved[8], 1);
  EXPECT_EQ(moved[24], 24);
}

}  // namespace
}  // namespace trifold::test
