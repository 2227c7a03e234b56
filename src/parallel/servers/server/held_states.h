// States of slices that a server holds without serving them: replicas of other servers' slices, and its own while a
// view is not settled.
#pragma once

#include <map>
#include <utility>

#include "parallel/servers/server/slice_state.h"

namespace trifold {

class HeldStates {
 public:
  explicit HeldStates(std::map<int, SliceState> states) : states_(std::move(states)) {}

  void hold(int slice, const SliceState& state) { states_.insert_or_assign(slice, state); }
  // A replica's next state. One that is older than what is held was sent twice, and changes nothing.
  void update_replica(int slice, SliceState state);
  void drop(int slice) { states_.erase(slice); }
  template <class Predicate>
  void drop_unless(const Predicate& keep) {
    std::erase_if(states_, [&](const auto& held) { return !keep(held.first); });
  }
  std::map<int, SliceState> take_all() { return std::exchange(states_, {}); }

  // Null: it is not held.
  const SliceState* find(int slice) const;
  const std::map<int, SliceState>& all() const { return states_; }

 private:
  std::map<int, SliceState> states_;
};

}  // namespace trifold
