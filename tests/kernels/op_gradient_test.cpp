// The backward ops of the reference backend are the derivatives of its forward ops: central differences of the case's
// objective, sum(dy * y) or a loss, against what the backward op makes.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "support/op_cases.h"

namespace trifold::test {
namespace {

// Values are of size 1. A central difference with this step has a truncation error of step^2/6 times the third
// derivative, some 1e-5. Outputs are rounded to float (3e-8 of their size); a change of one input moves up to some
// hundred of them, and 3e-8 * sqrt(300) * 3 / (2 * step) is about 2e-4. The largest gradient of a tensor is of size 1
// to 20, so differences stay below 1e-3 of it; a wrong factor, sign or index is off by much more than 5e-3.
constexpr float kStep = 1.0f / 256;
constexpr double kTolerance = 5e-3;
constexpr std::size_t kMostElements = 24;  // checked a tensor, evenly spread

class OpGradient : public testing::TestWithParam<OpCase> {
 protected:
  const OpCase& op_case() const { return GetParam(); }

  std::vector<HostTensor> run(std::vector<HostTensor> values, std::size_t steps) const {
    for (std::size_t s = 0; s < steps; ++s) {
      const CaseStep& step = op_case().steps[s];
      auto made = run_step({.backend = reference_backend(), .context = case_context()}, op_case(), step, values);
      for (std::size_t i = 0; i < made.size(); ++i) values[static_cast<std::size_t>(step.out[i])] = std::move(made[i]);
    }
    return values;
  }

  // Steps after which all of the objective is there.
  std::size_t forward_steps() const {
    std::size_t steps = 0;
    for (std::size_t s = 0; s < op_case().steps.size(); ++s)
      for (const int out : op_case().steps[s].out)
        for (const Objective& objective : op_case().objectives)
          if (objective.value == out) steps = s + 1;
    return steps;
  }

  double objective(const std::vector<HostTensor>& drawn) const {
    const std::vector<HostTensor> values = run(drawn, forward_steps());
    double total = 0;
    for (const Objective& term : op_case().objectives) {
      const HostTensor& value = values[static_cast<std::size_t>(term.value)];
      if (term.weights < 0) {
        total += value.number(0);
        continue;
      }
      const HostTensor& weights = values[static_cast<std::size_t>(term.weights)];
      for (std::size_t i = 0; i < value.as().size(); ++i) total += value.number(i) * weights.number(i);
    }
    return total;
  }

  double difference(std::vector<HostTensor> values, int of, std::size_t element, float step) const {
    float& x = values[static_cast<std::size_t>(of)].as()[element];
    const float above = x + step;
    const float below = x - step;
    x = above;
    const double high = objective(values);
    x = below;
    return (high - objective(values)) / (static_cast<double>(above) - below);
  }
};

TEST_P(OpGradient, MatchesFiniteDifferences) {
  const std::vector<HostTensor> drawn = draw_values(op_case(), 0);
  const std::vector<HostTensor> values = run(drawn, op_case().steps.size());
  for (const GradientCheck& check : op_case().gradients) {
    SCOPED_TRACE(op_case().values[static_cast<std::size_t>(check.gradient)].name);
    const auto gradient = values[static_cast<std::size_t>(check.gradient)].as();
    double largest = 0;
    for (const float g : gradient) largest = std::max(largest, std::abs(static_cast<double>(g)));
    ASSERT_GT(largest, 0) << "a gradient of zeros proves nothing";
    const double allowed = kTolerance * largest;
    std::size_t checked = 0;
    std::size_t kinks = 0;
    for (std::size_t i = 0; i < gradient.size(); i += (gradient.size() + kMostElements - 1) / kMostElements) {
      ++checked;
      const double wide = difference(drawn, check.of, i, kStep);
      if (std::abs(wide - gradient[i]) <= allowed) continue;
      // Where a relu switches within the step there is no derivative, and a smaller step gives another answer.
      const double narrow = difference(drawn, check.of, i, kStep / 2);
      if (std::abs(wide - narrow) > allowed / 4)
        ++kinks;
      else
        ADD_FAILURE() << "element " << i << ": " << gradient[i] << ", by differences " << wide;
    }
    EXPECT_LE(kinks, 1 + checked / 8);
  }
}

std::vector<OpCase> cases_with_gradients() {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : op_cases())
    if (!op_case.gradients.empty()) cases.push_back(op_case);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, OpGradient, testing::ValuesIn(cases_with_gradients()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace trifold::test
