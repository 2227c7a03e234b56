// Activations and their gradients against the double functions of <cmath>, near and far from 0.
#include "kernels/cpu/simd/activation_loops.h"

#include <cmath>

#include "kernels/cpu/loops_fixture.h"

TRIFOLD_TEST_TABLES(ActivationLoops, activation_loops)

namespace trifold::cpu {
namespace {

struct Function {
  const char* name;
  ActivationLoops::Forward ActivationLoops::*forward;
  ActivationLoops::Backward ActivationLoops::*backward;
  double (*value)(double x);
  double (*derivative)(double x);
  bool from_x;
};

constexpr double kSlope = 0.1f;

double normal_below(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

const Function kFunctions[] = {
    {"relu", &ActivationLoops::relu, &ActivationLoops::relu_backward, [](double x) { return x > 0 ? x : 0; },
     [](double x) { return x > 0 ? 1.0 : 0.0; }, false},
    {"leaky_relu", &ActivationLoops::leaky_relu, &ActivationLoops::leaky_relu_backward,
     [](double x) { return x > 0 ? x : kSlope * x; }, [](double x) { return x > 0 ? 1.0 : kSlope; }, false},
    {"gelu", &ActivationLoops::gelu, &ActivationLoops::gelu_backward, [](double x) { return x * normal_below(x); },
     [](double x) { return normal_below(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }, true},
    {"sigmoid", &ActivationLoops::sigmoid, &ActivationLoops::sigmoid_backward,
     [](double x) { return 1 / (1 + std::exp(-x)); },
     [](double x) { return std::exp(-x) / ((1 + std::exp(-x)) * (1 + std::exp(-x))); }, false},
    {"tanh", &ActivationLoops::tanh, &ActivationLoops::tanh_backward, [](double x) { return std::tanh(x); },
     [](double x) { return 1 - std::tanh(x) * std::tanh(x); }, false},
};

class ActivationLoopsTest : public LoopsTest {
 protected:
  const ActivationLoops& loops() const { return activation_loops_of(GetParam()); }
};

TEST_P(ActivationLoopsTest, ValuesAndGradients) {
  for (const Function& function : kFunctions) {
    for (const float reach : {0.5f, 8.0f, 100.0f}) {
      SCOPED_TRACE(std::string(function.name) + " to " + std::to_string(reach));
      const auto x = random(std::int64_t{1003}, -reach, reach), dy = random(std::int64_t{1003});
      std::vector<float> y(1003, kUntouched);
      const Range range = {3, 1003};
      (loops().*function.forward)({.x = x.data(), .y = y.data(), .slope = static_cast<float>(kSlope)}, range);
      for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(y[i], kUntouched);
      // gelu is x times a probability that is good to an absolute error
      const double tolerance = 4e-7 * (function.from_x ? std::max(1.0f, reach) : 1.0f);
      for (std::size_t i = 3; i < x.size(); ++i) {
        ASSERT_NEAR(y[i], function.value(x[i]), tolerance + 4e-7 * std::abs(function.value(x[i]))) << x[i];
      }
      auto dx = dy;  // in place
      (loops().*function.backward)({.dy = dx.data(),
                                    .saved = function.from_x ? x.data() : y.data(),
                                    .dx = dx.data(),
                                    .slope = static_cast<float>(kSlope)},
                                   range);
      for (std::size_t i = 3; i < x.size(); ++i) {
        ASSERT_NEAR(dx[i], dy[i] * function.derivative(x[i]), 1e-6) << x[i];
      }
    }
  }
}

TEST_P(ActivationLoopsTest, SmallArgumentsKeepTheirDigits) {
  const auto x = random(std::int64_t{257}, -0.4f, 0.4f);
  std::vector<float> y(x.size());
  loops().tanh({.x = x.data(), .y = y.data()}, {0, 257});
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i] / std::tanh(double{x[i]}), 1, 3e-7) << x[i];
}

// The gradient 1 - y^2 multiplies errors of y near 1 and -1.
TEST_P(ActivationLoopsTest, TanhIsOddAndGoodToOneUlpNearItsEnds) {
  std::vector<float> x;
  for (float value = 0.4f; value < 10; value += 0.0137f) x.insert(x.end(), {value, -value});
  std::vector<float> y(x.size());
  loops().tanh({.x = x.data(), .y = y.data()}, {0, static_cast<std::int64_t>(x.size())});
  for (std::size_t i = 0; i < x.size(); i += 2) {
    ASSERT_EQ(y[i], -y[i + 1]) << x[i];
    ASSERT_NEAR(y[i], std::tanh(double{x[i]}), 6e-8 * (x[i] < 2 ? 2 : 1)) << x[i];
  }
}

// sigmoid(-x) = 1 / (1 + e^x) shows e^x itself where that is small against 1, or large.
TEST_P(ActivationLoopsTest, ExponentialIsGoodToTwoUlp) {
  std::vector<float> x, y;
  for (float value = 17.5f; value < 87; value += 0.0371f) x.push_back(-value);
  y.resize(x.size());
  loops().sigmoid({.x = x.data(), .y = y.data()}, {0, static_cast<std::int64_t>(x.size())});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = 1 / (1 + std::exp(-double{x[i]}));
    ASSERT_NEAR(y[i] / expected, 1, 3 * 6e-8 + 6e-8) << x[i];
  }
}

TEST_P(ActivationLoopsTest, NanStaysNan) {
  const float nan = std::nanf("");
  for (const Function& function : kFunctions) {
    std::vector<float> x(9, nan), y(9);
    (loops().*function.forward)({.x = x.data(), .y = y.data(), .slope = 0.1f}, {0, 9});
    for (const float value : y) ASSERT_TRUE(std::isnan(value)) << function.name;
  }
}

TRIFOLD_TEST_EVERY_ISA(ActivationLoopsTest);

}  // namespace
}  // namespace trifold::cpu
