// Where a training run stands, apart from its tensors: what a resumed run needs to go on as if it had never stopped.
// Text form: JSON that keeps every number exactly, infinities and NaN included.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trifold {

struct TrainingState {
  std::int64_t step = 0;               // updates done
  std::int64_t epoch = 0;              // epochs completed
  std::int64_t position_in_epoch = 0;  // samples of the current epoch that the done updates used
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> rng = {};  // counters of sequences that go on across steps; their owner's order
  std::map<std::string, double> best_metrics = {};  // "test_accuracy" -> 0.991
  double loss_scale = 1.0;                          // of mixed precision
  std::int64_t steps_since_overflow = 0;            // when the loss scale may grow
  std::map<std::string, double> counters = {};      // of stop rules and schedules: "stop.patience" -> 3

  bool operator==(const TrainingState&) const = default;
};

std::string to_json_text(const TrainingState& state);

// `file` is what errors name.
TrainingState training_state_from_json(const std::string& text, const std::string& file);

}  // namespace trifold
