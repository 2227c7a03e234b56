// Decides which cuts of the model servers may forget. A manager that takes over begins where progress was last noted
// and asks for the cuts after that, so a cut is needed until progress beyond it is noted, however long that takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "runtime/checkpoint/training_state.h"

namespace trifold {

class DurableProgress {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // False: the registry cannot be reached now.
  using Note = std::function<bool(const TrainingState& state)>;
  explicit DurableProgress(Note note) : note_(std::move(note)) {}

  // Training has reached `state`: notes it, or tries to.
  void reached(const TrainingState& state, Time now);
  // This manager has done what the cut at this clock was for.
  void done_with(std::int64_t cut) { done_ = cut; }
  // Tries again to note what could not be noted. To be called now and then.
  void try_again(Time now);

  // The newest cut that nobody needs, each once.
  std::optional<std::int64_t> take_unneeded_cut();

 private:
  Note note_;
  std::optional<TrainingState> unnoted_;
  Time tried_ = {};
  std::int64_t done_ = -1;
  std::int64_t released_ = -1;
};

}  // namespace trifold
