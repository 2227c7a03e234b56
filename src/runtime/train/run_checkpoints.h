// The checkpoints of a run: which one to go on from, when the next is due, and saving it while training goes on. In a
// world every process does the same, and process 0 alone has the files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "parallel/world.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/config/job.h"
#include "runtime/train/learner.h"
#include "runtime/train/run_folder.h"

namespace trifold {

struct CheckpointTimes {
  std::int64_t count = 0;
  double wait_s = 0;   // in which training stood still for them
  double write_s = 0;  // of the thread that wrote them
};

// The newest that is whole, the same in all processes; null: there is none. `folder` is process 0's, which says what it
// had to skip.
std::optional<Checkpoint> newest_checkpoint(const RunFolder* folder, World* world,
                                            const std::function<void(const std::string&)>& say);

class RunCheckpoints {
 public:
  explicit RunCheckpoints(const CheckpointRules& rules) : rules_(rules) {}

  // Once the run's folder is there: process 0.
  void write_into(const RunFolder& folder);
  // The run goes on from this one.
  void loaded(const TrainingState& state) { saved_step_ = state.step; }

  bool due(const TrainingState& state) const;  // after a step
  bool has(const TrainingState& state) const { return saved_step_ == state.step; }
  // Training waits while the model is copied, and for the write of the checkpoint before.
  void save(Learner& learner, const TrainingState& state);
  // A write that failed is thrown.
  void check();
  bool writing() const { return writer_ && writer_->writing(); }
  void finish();  // waits for the last write

  const CheckpointTimes& times() const { return times_; }

 private:
  CheckpointRules rules_;
  std::optional<CheckpointWriter> writer_;
  std::int64_t saved_step_ = -1;  // where the newest stands
  CheckpointTimes times_;
};

}  // namespace trifold
