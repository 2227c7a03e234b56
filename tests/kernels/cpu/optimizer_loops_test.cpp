// Several updates in a row against the textbook recurrences in double.
#include "kernels/cpu/simd/optimizer_loops.h"

#include <cmath>

#include "kernels/cpu/loops_fixture.h"

TRIFOLD_TEST_TABLES(OptimizerLoops, optimizer_loops)

namespace trifold::cpu {
namespace {

constexpr std::int64_t kCount = 101;
constexpr Range kPart = {5, 98};

class OptimizerLoopsTest : public LoopsTest {
 protected:
  const OptimizerLoops& loops() const { return optimizer_loops_of(GetParam()); }
};

bool in_part(std::size_t i) {
  return static_cast<std::int64_t>(i) >= kPart.begin && static_cast<std::int64_t>(i) < kPart.end;
}

TEST_P(OptimizerLoopsTest, SgdThreeUpdates) {
  for (int variant = 0; variant < 3; ++variant) {  // plain, momentum, nesterov
    SCOPED_TRACE(variant);
    const auto initial = random(kCount);
    auto weights = initial;
    std::vector<float> velocity(kCount, 0.0f);
    std::vector<double> expected(initial.begin(), initial.end()), expected_velocity(kCount, 0.0);
    for (int update = 0; update < 3; ++update) {
      const auto gradients = random(kCount);
      loops().sgd({.weights = weights.data(),
                   .gradients = gradients.data(),
                   .velocity = variant > 0 ? velocity.data() : nullptr,
                   .rate = 0.1,
                   .momentum = 0.9,
                   .weight_decay = 0.01,
                   .nesterov = variant == 2,
                   .gradient_scale = 0.5},
                  kPart);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (!in_part(i)) continue;
        const double g = 0.5 * gradients[i] + 0.01 * expected[i];
        expected_velocity[i] = 0.9 * expected_velocity[i] + g;
        expected[i] -= 0.1 * (variant == 0 ? g : variant == 1 ? expected_velocity[i] : g + 0.9 * expected_velocity[i]);
      }
    }
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(weights[i], expected[i], 1e-6) << i;
  }
}

TEST_P(OptimizerLoopsTest, AdamAndAdamwThreeUpdates) {
  for (const bool decoupled : {false, true}) {
    SCOPED_TRACE(decoupled ? "adamw" : "adam");
    const auto initial = random(kCount);
    auto weights = initial;
    std::vector<float> mean(kCount, 0.0f), square(kCount, 0.0f);
    std::vector<double> expected(initial.begin(), initial.end()), m(kCount, 0.0), v(kCount, 0.0);
    for (int update = 1; update <= 3; ++update) {
      const auto gradients = random(kCount);
      const double correction1 = 1 - std::pow(0.9, update), correction2 = 1 - std::pow(0.99, update);
      const AdamArgs args{.weights = weights.data(),
                          .gradients = gradients.data(),
                          .mean = mean.data(),
                          .square = square.data(),
                          .rate = 0.01,
                          .beta1 = 0.9,
                          .beta2 = 0.99,
                          .eps = 1e-3,
                          .weight_decay = 0.1,
                          .updates = update,
                          .gradient_scale = 2};
      decoupled ? loops().adamw(args, kPart) : loops().adam(args, kPart);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (!in_part(i)) continue;
        const double g = 2.0 * gradients[i] + (decoupled ? 0 : 0.1 * expected[i]);
        if (decoupled) expected[i] *= 1 - 0.01 * 0.1;
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.99 * v[i] + 0.01 * g * g;
        expected[i] -= 0.01 * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + 1e-3);
      }
    }
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(weights[i], expected[i], 2e-6) << i;
  }
}

// From zero, with equal gradients and eps 0, every update of Adam is the rate whatever the betas.
TEST_P(OptimizerLoopsTest, AdamMovesByTheRateForBetasNear1) {
  for (const double beta1 : {0.0, 0.9, 0.99999, 0.99999999})
    for (const double beta2 : {0.9, 0.999, 0.99999, 0.99999999}) {
      SCOPED_TRACE(testing::Message() << "betas " << beta1 << " and " << beta2);
      const auto gradients = random(kCount, 0.1f, 1);
      std::vector<float> weights(kCount, 0.0f), mean(kCount, 0.0f), square(kCount, 0.0f);
      for (int update = 1; update <= 10; ++update) {
        loops().adam({.weights = weights.data(),
                      .gradients = gradients.data(),
                      .mean = mean.data(),
                      .square = square.data(),
                      .rate = 0.01,
                      .beta1 = beta1,
                      .beta2 = beta2,
                      .eps = 0,
                      .updates = update},
                     kPart);
        for (std::size_t i = 0; i < weights.size(); ++i)
          ASSERT_NEAR(weights[i], in_part(i) ? -0.01 * update : 0.0, 5 * 0x1p-23 * 0.01 * update) << i;
      }
    }
}

// A thousand gradients of zero: what is left of the averages is beta^1000, but for roundings to either side.
TEST_P(OptimizerLoopsTest, AveragesDecayAtTheirExactRate) {
  constexpr int kUpdates = 1000;
  const auto initial = random(kCount, 0.5f, 1);
  const std::vector<float> gradients(kCount, 0.0f);
  auto velocity = initial, mean = initial, square = initial;
  std::vector<float> weights(kCount, 0.0f);
  for (int update = 1; update <= kUpdates; ++update) {
    loops().sgd(
        {.weights = weights.data(), .gradients = gradients.data(), .velocity = velocity.data(), .momentum = 0.999},
        kPart);
    loops().adamw({.weights = weights.data(),
                   .gradients = gradients.data(),
                   .mean = mean.data(),
                   .square = square.data(),
                   .beta1 = 0.999,
                   .beta2 = 0.99999,
                   .updates = update},
                  kPart);
  }
  const auto bias_of = [&](const std::vector<float>& averages, double decay) {
    double left = 0, exact = 0;
    for (std::size_t i = 0; i < initial.size(); ++i) {
      if (!in_part(i)) continue;
      left += averages[i];
      exact += initial[i] * std::pow(decay, kUpdates);
    }
    return left / exact - 1;
  };
  EXPECT_NEAR(bias_of(velocity, 0.999), 0, 1e-6);
  EXPECT_NEAR(bias_of(mean, 0.999), 0, 1e-6);
  EXPECT_NEAR(bias_of(square, 0.99999), 0, 1e-6);
}

// 3e-8 of a weight is less than half its ulp. A factor of 1 - 3e-8, rounded to float, would take an ulp off each.
TEST_P(OptimizerLoopsTest, AdamwKeepsSmallDecays) {
  const auto initial = random(kCount, 1, 2);
  auto weights = initial;
  std::vector<float> gradients(kCount, 0.0f), mean(kCount, 0.0f), square(kCount, 0.0f);
  loops().adamw({.weights = weights.data(),
                 .gradients = gradients.data(),
                 .mean = mean.data(),
                 .square = square.data(),
                 .rate = 0.1,
                 .weight_decay = 3e-7},
                kPart);
  for (std::size_t i = 0; i < weights.size(); ++i)
    ASSERT_EQ(weights[i], in_part(i) ? static_cast<float>(initial[i] * (1 - 3e-8)) : initial[i]) << i;
}

TEST_P(OptimizerLoopsTest, SumOfSquaresAndScale) {
  for (const std::int64_t count : {3L, 64L, 30001L}) {
    auto x = random(count);
    const auto before = x;
    double expected = 0;
    for (std::size_t i = 1; i < x.size(); ++i) expected += double{x[i]} * x[i];
    EXPECT_NEAR(loops().sum_of_squares(x.data(), {1, count}), expected, 1e-6 * expected);
    EXPECT_EQ(loops().sum_of_squares(x.data(), {2, 2}), 0);
    loops().scale(x.data(), 0.5f, {1, count});
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], i == 0 ? before[i] : before[i] * 0.5f);
  }
}

TRIFOLD_TEST_EVERY_ISA(OptimizerLoopsTest);

}  // namespace
}  // namespace trifold::cpu
