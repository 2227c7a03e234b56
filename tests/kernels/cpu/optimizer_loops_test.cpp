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
                   .rate = 0.1f,
                   .momentum = 0.9f,
                   .weight_decay = 0.01f,
                   .nesterov = variant == 2,
                   .gradient_scale = 0.5f},
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
                          .rate = 0.01f,
                          .beta1 = 0.9f,
                          .beta2 = 0.99f,
                          .eps = 1e-3f,
                          .weight_decay = 0.1f,
                          .mean_correction = correction1,
                          .square_correction = correction2,
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
