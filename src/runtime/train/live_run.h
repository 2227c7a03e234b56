// What the live view must know of a run before it begins: its plan, its ranks, and what their programs' nodes are
// called.
#pragma once

#include "runtime/train/live_board.h"
#include "runtime/train/parallel_model.h"

namespace trifold {

LiveRun describe_run(const Job& job, const ParallelModel& model, const World* world);

}  // namespace trifold
