#include "parallel/servers/server/held_states.h"

#include <cstddef>

namespace trifold {
namespace {

constexpr std::size_t kMostCuts = 3;  // of a replica, which is not told when one is released

}  // namespace

void HeldStates::update_replica(int slice, SliceState state) {
  if (const auto held = states_.find(slice); held != states_.end()) {
    const SliceState& last = held->second;
    if (last.newer_than(state)) return;
    if (last.epoch == state.epoch && last.version + 1 == state.version) state.before = last.values;
    state.cuts.merge(std::map(last.cuts));
  }
  while (state.cuts.size() > kMostCuts) state.cuts.erase(state.cuts.begin());
  states_.insert_or_assign(slice, std::move(state));
}

const SliceState* HeldStates::find(int slice) const {
  const auto held = states_.find(slice);
  return held == states_.end() ? nullptr : &held->second;
}

}  // namespace trifold
