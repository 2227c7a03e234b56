// Losses, their gradients and the count of correct rows against double formulas.
#include "kernels/cpu/simd/loss_loops.h"

#include <cmath>
#include <numeric>

#include "kernels/cpu/loops_fixture.h"

TRIFOLD_TEST_TABLES(LossLoops, loss_loops)

namespace trifold::cpu {
namespace {

constexpr std::int64_t kClassCounts[] = {1, 2, 7, 8, 10, 16, 37, 1000};

class LossLoopsTest : public LoopsTest {
 protected:
  const LossLoops& loops() const { return loss_loops_of(GetParam()); }
};

// log-probabilities of a row.
std::vector<double> log_softmax(const float* x, std::int64_t count) {
  double top = x[0], total = 0;
  for (std::int64_t k = 0; k < count; ++k) top = std::max(top, double{x[k]});
  for (std::int64_t k = 0; k < count; ++k) total += std::exp(x[k] - top);
  std::vector<double> result;
  for (std::int64_t k = 0; k < count; ++k) result.push_back(x[k] - top - std::log(total));
  return result;
}

TEST_P(LossLoopsTest, LogSoftmaxForwardAndBackward) {
  for (const std::int64_t classes : kClassCounts) {
    SCOPED_TRACE(classes);
    const ChannelView view = {classes, 1, false};
    const auto x = random(view, -30, 30), dy = random(view);
    auto y = untouched(view), dx = untouched(view);
    loops().log_softmax_forward({.classes = classes, .x = x.data(), .y = y.data()}, kRange);
    loops().log_softmax_backward({.classes = classes, .dy = dy.data(), .y = y.data(), .dx = dx.data()}, kRange);
    expect_sample_0_untouched(view, y);
    expect_sample_0_untouched(view, dx);
    for (std::int64_t n = kRange.begin; n < kRange.end; ++n) {
      const auto start = static_cast<std::size_t>(n * classes);
      const auto expected = log_softmax(x.data() + start, classes);
      double total = 0;
      for (std::size_t k = 0; k < expected.size(); ++k) total += dy[start + k];
      for (std::size_t k = 0; k < expected.size(); ++k) {
        ASSERT_NEAR(y[start + k], expected[k], 1e-5);
        ASSERT_NEAR(dx[start + k], dy[start + k] - std::exp(expected[k]) * total, 2e-5);
      }
    }
  }
}

// Softmax and nll on the log-probabilities of the same logits: same loss, each its own gradient.
TEST_P(LossLoopsTest, CrossEntropyInEveryVariant) {
  constexpr float kFactor = 0.25f;
  const Range all = {0, kSamples};
  for (const std::int64_t classes : kClassCounts) {
    const ChannelView view = {classes, 1, false};
    const auto x = random(view, -5, 5);
    const auto weights = random(classes, 0.5, 2);
    std::vector<float> log_p(x.size());
    loops().log_softmax_forward({.classes = classes, .x = x.data(), .y = log_p.data()}, all);
    const std::int32_t last = static_cast<std::int32_t>(classes - 1);
    const std::vector<std::int32_t> labels = {last, -1, last / 2};
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const bool weighted : {false, true}) {
        SCOPED_TRACE(testing::Message() << classes << " smoothing " << smoothing << " weighted " << weighted);
        auto gradient = x, nll_gradient = log_p;  // over the input
        CrossEntropyArgs args{.classes = classes,
                              .input = gradient.data(),
                              .labels = labels.data(),
                              .class_weights = weighted ? weights.data() : nullptr,
                              .smoothing = smoothing,
                              .factor = kFactor,
                              .gradient = gradient.data()};
        const LossReport report = loops().softmax_cross_entropy(args, all);
        args.input = x.data();
        args.gradient = nullptr;
        EXPECT_EQ(loops().softmax_cross_entropy(args, all).loss, report.loss);
        args.input = args.gradient = nll_gradient.data();
        const LossReport nll_report = loops().nll(args, all);
        double loss = 0;
        std::int64_t correct = 0;
        for (std::int64_t n = 0; n < kSamples; ++n) {
          const auto start = static_cast<std::size_t>(n * classes);
          const std::int32_t label = labels[static_cast<std::size_t>(n)];
          const auto p = log_softmax(x.data() + start, classes);
          std::vector<double> targets(p.size(), 0.0);
          for (std::size_t k = 0; label >= 0 && k < p.size(); ++k)
            targets[k] =
                (weighted ? weights[k] : 1.0) * ((static_cast<std::int64_t>(k) == label ? 1.0 - smoothing : 0.0) +
                                                 double{smoothing} / static_cast<double>(classes));
          const double target_sum = std::accumulate(targets.begin(), targets.end(), 0.0);
          std::size_t best = 0;
          for (std::size_t k = 0; k < p.size(); ++k) {
            if (p[k] > p[best]) best = k;
            loss -= targets[k] * p[k];
            ASSERT_NEAR(gradient[start + k], kFactor * (std::exp(p[k]) * target_sum - targets[k]), 1e-6);
            ASSERT_NEAR(nll_gradient[start + k], -kFactor * targets[k], 1e-6);
          }
          correct += static_cast<std::int64_t>(best) == label ? 1 : 0;
        }
        EXPECT_NEAR(report.loss, loss, 1e-5);
        EXPECT_NEAR(nll_report.loss, loss, 1e-5);
        EXPECT_EQ(report.correct, correct);
        EXPECT_EQ(nll_report.correct, correct);
      }
    }
  }
}

TEST_P(LossLoopsTest, OfEqualLogitsTheFirstIsTheAnswer) {
  const std::vector<float> x = {0, 3, 1, 3, 2, 0, 0, 0, 3};
  for (const std::int32_t label : {0, 1, 3, 8}) {
    const CrossEntropyArgs args{.classes = 9, .input = x.data(), .labels = &label};
    EXPECT_EQ(loops().softmax_cross_entropy(args, {0, 1}).correct, label == 1 ? 1 : 0);
  }
}

TEST_P(LossLoopsTest, HugeLogitsDoNotOverflow) {
  const std::vector<float> x = {1e4f, -1e4f, 3e38f, 3e38f};
  const std::int32_t labels[] = {1, 1};
  std::vector<float> gradient(4);
  const CrossEntropyArgs args{.classes = 2, .input = x.data(), .labels = labels, .gradient = gradient.data()};
  EXPECT_EQ(loops().softmax_cross_entropy(args, {0, 1}).loss, 2e4);
  EXPECT_NEAR(loops().softmax_cross_entropy(args, {1, 2}).loss, std::log(2.0), 1e-6);
  EXPECT_EQ(gradient, (std::vector<float>{1, -1, 0.5f, -0.5f}));
}

TEST_P(LossLoopsTest, SquaredErrorSkipsAbsentRows) {
  for (const std::int64_t features : {1, 5, 8, 37}) {
    const ChannelView view = {features, 1, false};
    const auto y = random(view), target = random(view);
    const std::vector<std::int32_t> labels = {0, -1, 5};
    auto gradient = y;
    const LossReport report = loops().squared_error({.features = features,
                                                     .y = gradient.data(),
                                                     .target = target.data(),
                                                     .labels = labels.data(),
                                                     .factor = 0.5f,
                                                     .gradient = gradient.data()},
                                                    {0, kSamples});
    double loss = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool absent = labels[i / static_cast<std::size_t>(features)] < 0;
      const double difference = absent ? 0.0 : double{y[i]} - target[i];
      loss += difference * difference;
      ASSERT_NEAR(gradient[i], difference, 1e-6);
    }
    EXPECT_NEAR(report.loss, loss, 1e-5);
    EXPECT_EQ(report.correct, 0);
  }
}

TRIFOLD_TEST_EVERY_ISA(LossLoopsTest);

}  // namespace
}  // namespace trifold::cpu
