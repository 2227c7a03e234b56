// How exact an optimiser's updates are on a backend: ten updates in a row, at a rate that changes, beside the textbook
// recurrences in double.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "kernels/ops/optimizer.h"
#include "support/op_comparison.h"

namespace trifold::test {

struct OptimizerPrecisionCase {
  std::string name;  // letters, digits and underscores
  OptimizerArgs args;
};
void PrintTo(const OptimizerPrecisionCase& precision_case, std::ostream* os);

// Every optimiser; adam and adamw with betas from 0.9 to 0.99999999.
const std::vector<OptimizerPrecisionCase>& optimizer_precision_cases();

// The largest error of a weight, in float ulps of the larger of the weight and all updates of it so far.
struct UpdateErrors {
  double first = 0, tenth = 0;
};
UpdateErrors update_errors(const ComparedBackend& tested, const OptimizerArgs& args);

// What ten roundings of weights and states may come to.
inline constexpr double kFirstUpdateUlps = 3, kTenthUpdateUlps = 6;

// The mean relative error of the states that decay (a velocity, Adam's averages), the largest of them, after a thousand
// gradients of zero: roundings go to either side and leave little of themselves.
double decay_error(const ComparedBackend& tested, const OptimizerArgs& args);
inline constexpr double kDecayTolerance = 1e-6;

}  // namespace trifold::test
