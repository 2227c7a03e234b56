#include "insight/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace trifold {
namespace {

// Rounding was drawn once, and may open other units another time: a few times as much is no fault.
constexpr double kDraws = 4;

double relative_difference(double value, double reference) {
  if (value == reference) return 0;
  return std::abs(value - reference) / std::abs(reference);  // infinite where the reference is 0
}

}  // namespace

LossDifference largest_difference(std::span<const double> losses, std::span<const double> reference) {
  TRIFOLD_CHECK(losses.size() == reference.size(), "{} losses, not {}", losses.size(), reference.size());
  LossDifference worst{.relative = 0, .step = 1};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double relative = relative_difference(losses[i], reference[i]);
    if (relative > worst.relative) worst = {relative, static_cast<std::int64_t>(i) + 1};
  }
  return worst;
}

int cores_used(const PlanResult& plan, int cores) {
  return std::min(cores, (plan.served ? plan.served->workers : 1) * plan.mesh.size() * plan.threads);
}

void assert_equal(const Comparison& comparison, double tolerance) {
  const std::vector<double>& reference = comparison.plans[comparison.single].losses;
  for (const PlanResult& plan : comparison.plans) {
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const double relative = relative_difference(plan.losses[i], reference[i]);
      if (relative > tolerance)
        fail_runtime(
            "plan '{}': the loss of step {} is {:.9g}, {:.2g} of it off the single run's {:.9g}; --assert-equal "
            "allows {:g}, and rounding alone makes {:.2g}",
            plan.plan, i + 1, plan.losses[i], relative, reference[i], tolerance, comparison.loss_rounding);
    }
    if (plan.gradient_difference.relative > std::max(tolerance, kDraws * comparison.gradient_rounding))
      fail_runtime(
          "plan '{}': the gradient of layer '{}' in step 1 is off the single run's by {:.2g} of the layer's largest; "
          "--assert-equal allows {:g}, and rounding alone makes {:.2g}",
          plan.plan, plan.gradient_difference.layer, plan.gradient_difference.relative, tolerance,
          comparison.gradient_rounding);
  }
}

}  // namespace trifold
