// The figures of a comparison, and when it is taken for a failed test.
#include "insight/compare/comparison.h"

#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

PlanResult plan_with(const std::string& name, std::vector<double> losses) {
  PlanResult plan;
  plan.plan = name;
  plan.losses = std::move(losses);
  return plan;
}

std::string refusal(const Comparison& comparison, double tolerance) {
  try {
    assert_equal(comparison, tolerance);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    return error.what();
  }
  return "";
}

TEST(Figures, LossesAreComparedStepByStep) {
  const std::vector<double> reference = {2.0, 1.0, 0.5};
  EXPECT_EQ(largest_difference(reference, reference).relative, 0);
  const LossDifference found = largest_difference(std::vector<double>{2.1, 1.0, 0.4}, reference);
  EXPECT_NEAR(found.relative, 0.2, 1e-12);
  EXPECT_EQ(found.step, 3);
}

TEST(Figures, RanksShareTheCores) {
  PlanResult plan;
  plan.mesh = {.data = 4};
  plan.threads = 1;
  EXPECT_EQ(cores_used(plan, 8), 4);
  EXPECT_EQ(cores_used(plan, 2), 2);
  plan.threads = 2;
  EXPECT_EQ(cores_used(plan, 8), 8);
}

TEST(AssertEqual, NamesThePlanTheStepAndTheFigure) {
  Comparison comparison;
  comparison.plans = {plan_with("single", {2.0, 1.0}), plan_with("dp=2", {2.0, 1.0}), plan_with("tp=2", {2.0, 1.001})};
  EXPECT_EQ(refusal(comparison, 0.002), "");
  EXPECT_EQ(refusal(comparison, 1e-4),
            "plan 'tp=2': the loss of step 2 is 1.001, 0.001 of it off the single run's 1; --assert-equal allows "
            "0.0001, and rounding alone makes 0");
  comparison.plans[1].gradient_difference = {0.5, "conv1"};
  EXPECT_EQ(refusal(comparison, 0.002),
            "plan 'dp=2': the gradient of layer 'conv1' in step 1 is off the single run's by 0.5 of the layer's "
            "largest; --assert-equal allows 0.002, and rounding alone makes 0");
  comparison.gradient_rounding = 0.1;
  EXPECT_NE(refusal(comparison, 0.002), "");
  comparison.gradient_rounding = 0.2;
  EXPECT_EQ(refusal(comparison, 0.002), "") << "no more than other last bits of the weights would do";
}

TEST(AssertEqual, ToleratesNothingAtZero) {
  Comparison comparison;
  comparison.plans = {plan_with("single", {1.0}), plan_with("dp=2", {1.0})};
  EXPECT_EQ(refusal(comparison, 0), "");
  comparison.plans[1].losses[0] += std::numeric_limits<double>::epsilon();
  EXPECT_NE(refusal(comparison, 0), "");
}

}  // namespace
}  // namespace trifold
