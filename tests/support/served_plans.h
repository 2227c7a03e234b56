// Plans of a worker whose optimiser is elsewhere, one for each way that ranks have tensors.
#pragma once

#include <string>
#include <vector>

#include "support/folding.h"

namespace trifold::test {

constexpr double kServedRate = 0.02;
constexpr int kServedSteps = 10;

struct ServedPlan {
  std::string name;
  PlanConfig plan;
  std::int64_t accumulate = 1;
};
const std::vector<ServedPlan>& served_plans();

FoldOptions plain_sgd(std::int64_t accumulate = 1);

}  // namespace trifold::test
