// Where a stage's micro-batches keep what they made on their way forward: a slot is taken by the forward work and free
// again after the backward work.
#pragma once

#include <span>
#include <vector>

#include "parallel/pipeline/pipeline_schedule.h"

namespace trifold {

struct SlottedActions {
  std::vector<Action> actions;
  std::vector<int> slot;   // of each action, among its chunk's
  std::vector<int> slots;  // that each chunk needs
};

// The lowest free slot each time.
SlottedActions assign_slots(const Pipeline& pipeline, int stage);

}  // namespace trifold
