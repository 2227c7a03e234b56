#include "parallel/pipeline/pipeline_slots.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trifold {

SlottedActions assign_slots(const Pipeline& pipeline, int stage) {
  SlottedActions result;
  result.actions = actions_of(pipeline, stage);
  const auto chunks = static_cast<std::size_t>(pipeline.chunks);
  std::vector<std::vector<bool>> taken(chunks);
  std::map<std::pair<int, int>, int> slot_of;  // by chunk and micro-batch
  for (const Action& action : result.actions) {
    std::vector<bool>& slots = taken[static_cast<std::size_t>(action.chunk)];
    const std::pair key{action.chunk, action.micro_batch};
    if (action.work == Work::forward) {
      const auto free = std::ranges::find(slots, false);
      slot_of[key] = static_cast<int>(free - slots.begin());
      if (free == slots.end())
        slots.push_back(true);
      else
        *free = true;
    }
    result.slot.push_back(slot_of.at(key));
    if (action.work == Work::backward || action.work == Work::weight_gradient)
      slots[static_cast<std::size_t>(slot_of.at(key))] = false;
  }
  for (const std::vector<bool>& slots : taken) result.slots.push_back(static_cast<int>(slots.size()));
  return result;
}

}  // namespace trifold
