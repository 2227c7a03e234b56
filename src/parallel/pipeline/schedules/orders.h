// Orders of work that several schedules have in common, and differ in how far they fill the pipeline.
#pragma once

#include <vector>

#include "parallel/pipeline/pipeline_schedule.h"

namespace trifold {

// Three phases: `filling` forwards fill the pipeline; one forward and one backward alternate, the forward first;
// backwards empty the pipeline.
std::vector<Action> fill_alternate_empty(const Pipeline& pipeline, int filling);

struct LateWeightGradients {
  int filling = 0;  // forwards before the first backward
  int waiting = 0;  // weight gradients that the stage keeps for its end
};

// The same, but weight gradients wait: a later stage, which starts later, leaves more of them for its end, where it
// would otherwise be idle.
std::vector<Action> fill_alternate_empty(const Pipeline& pipeline, const LateWeightGradients& late);

// Waiting relative to work when all stages wait for the first micro-batch to pass through the others, forward and
// backward: (p - 1) / (chunks m).
double bubble_of_filling(const Pipeline& pipeline);

}  // namespace trifold
