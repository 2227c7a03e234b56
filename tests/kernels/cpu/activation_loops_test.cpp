// Activations and their gradients against their formulas in double, near and far from 0, and against the points that
// their files give.
#include "kernels/cpu/simd/activation_loops.h"

#include <cmath>

#include "kernels/cpu/loops_fixture.h"
#include "kernels/ops/activation.h"
#include "kernels/scalar_number.h"

TRIFOLD_TEST_TABLES(ActivationLoops, activation_loops)

namespace trifold::cpu {
namespace {

using Number = ScalarNumber<double>;

// The formulas in double, with the parameters that the loops get: as floats.
struct Exact {
  explicit Exact(Activation which) : activation(which), parameters(default_parameters(which)) {
    for (double& parameter : parameters) parameter = static_cast<float>(parameter);
  }
  double value(double x) const {
    const Number numbers[] = {parameters[0], parameters[1]};
    return with_function(activation, [&](auto function) {
      return AppliedActivation<decltype(function)>::value(Number(x), numbers).value;
    });
  }
  double gradient(double dy, double x) const {
    const double kept = from_x() ? x : value(x);
    const Number numbers[] = {parameters[0], parameters[1]};
    return with_function(activation, [&](auto function) {
      return AppliedActivation<decltype(function)>::gradient(Number(dy), Number(kept), numbers).value;
    });
  }
  bool from_x() const { return traits_of(activation).gradient_from == GradientFrom::input; }

  Activation activation;
  ActivationParameters parameters;
};

class ActivationLoopsTest : public LoopsTest {
 protected:
  const ActivationLoops& loops() const { return activation_loops_of(GetParam()); }

  std::vector<float> values(Activation activation, const std::vector<float>& x) const {
    std::vector<float> y(x.size());
    const ActivationParameters parameters = default_parameters(activation);
    loops().forward[static_cast<std::size_t>(activation)](
        {.x = x.data(), .y = y.data(), .parameters = parameters.data()}, {0, static_cast<std::int64_t>(x.size())});
    return y;
  }
};

TEST_P(ActivationLoopsTest, ValuesAndGradients) {
  for (const Activation activation : kActivations) {
    const Exact exact(activation);
    const auto index = static_cast<std::size_t>(activation);
    for (const float reach : {0.5f, 8.0f, 100.0f}) {
      SCOPED_TRACE(std::string(name_of(activation)) + " to " + std::to_string(reach));
      const auto x = random(std::int64_t{1003}, -reach, reach), dy = random(std::int64_t{1003});
      std::vector<float> y(1003, kUntouched);
      const Range range = {3, 1003};
      loops().forward[index]({.x = x.data(), .y = y.data(), .parameters = exact.parameters.data()}, range);
      for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(y[i], kUntouched);
      // gelu and its like are x times a probability that is good to an absolute error
      const double tolerance = 4e-7 * (exact.from_x() ? std::max(1.0f, reach) : 1.0f);
      for (std::size_t i = 3; i < x.size(); ++i)
        ASSERT_NEAR(y[i], exact.value(x[i]), tolerance + 4e-7 * std::abs(exact.value(x[i]))) << x[i];
      auto dx = dy;  // in place
      loops().backward[index]({.dy = dx.data(),
                               .saved = exact.from_x() ? x.data() : y.data(),
                               .dx = dx.data(),
                               .parameters = exact.parameters.data()},
                              range);
      for (std::size_t i = 3; i < x.size(); ++i) ASSERT_NEAR(dx[i], exact.gradient(dy[i], x[i]), 1e-6) << x[i];
    }
  }
}

TEST_P(ActivationLoopsTest, PassThroughTheirSamples) {
  for (const Activation activation : kActivations) {
    const ActivationTraits& traits = traits_of(activation);
    const ActivationParameters parameters = default_parameters(activation);
    for (const ActivationSample& sample : traits.samples) {
      SCOPED_TRACE(std::string(traits.name) + " at " + std::to_string(sample.x));
      const float y = values(activation, {static_cast<float>(sample.x)})[0];
      EXPECT_NEAR(y, sample.y, 4e-7 * std::max(1.0, std::abs(sample.y)));
      const float dy = 2;
      const auto kept = static_cast<float>(traits.gradient_from == GradientFrom::input ? sample.x : sample.y);
      float dx = 0;
      loops().backward[static_cast<std::size_t>(activation)](
          {.dy = &dy, .saved = &kept, .dx = &dx, .parameters = parameters.data()}, {0, 1});
      EXPECT_NEAR(dx, 2 * sample.slope, 1e-6);
    }
  }
}

TEST_P(ActivationLoopsTest, SmallArgumentsKeepTheirDigits) {
  const auto x = random(std::int64_t{257}, -0.4f, 0.4f);
  const std::vector<float> y = values(Activation::tanh, x);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i] / std::tanh(double{x[i]}), 1, 3e-7) << x[i];
}

// The gradient 1 - y^2 multiplies errors of y near 1 and -1.
TEST_P(ActivationLoopsTest, TanhIsOddAndGoodToOneUlpNearItsEnds) {
  std::vector<float> x;
  for (float value = 0.4f; value < 10; value += 0.0137f) x.insert(x.end(), {value, -value});
  const std::vector<float> y = values(Activation::tanh, x);
  for (std::size_t i = 0; i < x.size(); i += 2) {
    ASSERT_EQ(y[i], -y[i + 1]) << x[i];
    ASSERT_NEAR(y[i], std::tanh(double{x[i]}), 6e-8 * (x[i] < 2 ? 2 : 1)) << x[i];
  }
}

// sigmoid(-x) = 1 / (1 + e^x) shows e^x itself where that is small against 1, or large.
TEST_P(ActivationLoopsTest, ExponentialIsGoodToTwoUlp) {
  std::vector<float> x;
  for (float value = 17.5f; value < 87; value += 0.0371f) x.push_back(-value);
  const std::vector<float> y = values(Activation::sigmoid, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = 1 / (1 + std::exp(-double{x[i]}));
    ASSERT_NEAR(y[i] / expected, 1, 3 * 6e-8 + 6e-8) << x[i];
  }
}

TEST_P(ActivationLoopsTest, NanStaysNan) {
  for (const Activation activation : kActivations)
    for (const float value : values(activation, std::vector<float>(9, std::nanf(""))))
      ASSERT_TRUE(std::isnan(value)) << name_of(activation);
}

TRIFOLD_TEST_EVERY_ISA(ActivationLoopsTest);

}  // namespace
}  // namespace trifold::cpu
