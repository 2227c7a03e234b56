// How many layers each part of a pipeline gets: as the plan lists them, or cuts them, or balanced.
#pragma once

#include <span>
#include <vector>

#include "runtime/train/parallel_plan.h"

namespace trifold {

// One number a part. `whole`: the graph of one micro-batch on one replica. `measured`: seconds of each layer, where the
// plan asks for stages that are balanced by them.
std::vector<int> choose_stages(const Job& job, const ModelOptions& options, const ParallelPlan& plan,
                               const Graph& whole, std::span<const double> measured);

}  // namespace trifold
