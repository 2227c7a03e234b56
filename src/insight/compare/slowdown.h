// Why a plan is slower than the fastest, in a sentence made of its figures.
#pragma once

#include <string>

#include "insight/compare/comparison.h"

namespace trifold {

// The parts of the step that took longer than the winner's, the largest first, each with its cause. `cores`: what the
// single run has.
std::string explain_slowdown(const PlanResult& plan, const PlanResult& winner, int cores);

}  // namespace trifold
