// One plan in a comparison: its model, which trains a few steps whenever it is its turn and can be put away between
// turns.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "runtime/compare/gradients.h"
#include "runtime/compare/memory_use.h"
#include "runtime/compare/plan_list.h"
#include "runtime/compare/rank_work.h"
#include "runtime/compare/step_timeline.h"
#include "runtime/compare/traffic.h"
#include "runtime/data/dataset.h"
#include "runtime/profile/trace_recorder.h"
#include "runtime/train/folded_model.h"

namespace trifold {

// What was measured in one turn.
struct Turn {
  int steps = 0;  // that were timed: all but the first
  double seconds = 0;
  double loading = 0;           // of them, waiting for the loader
  std::vector<RankWork> ranks;  // no node of a GPU is timed: zeros there

  double seconds_a_step() const { return seconds / steps; }
};

// What a plan starts from: the job's weights, or those but for their last bits. A ReLU whose input is nearly zero may
// then open or close, and with it a whole term of a gradient: what rounding alone makes of a run can be far more than
// rounding.
enum class FirstWeights { of_the_job, rounded };

struct ContestantArgs {
  const ComparedPlan& plan;
  std::shared_ptr<const Dataset> data;
  int cores = 1;               // what a single rank has
  std::filesystem::path file;  // holds the model while it is put away
  FirstWeights weights = FirstWeights::of_the_job;
  std::filesystem::path trace = {};  // of the timed steps; empty: none
};

// FLOPs of all ranks, a step.
struct Arithmetic {
  double all = 0;
  double repeated = 0;  // of that: by stages that recompute
};

class Contestant {
 public:
  explicit Contestant(ContestantArgs args);
  ~Contestant();
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;

  // Trains so many steps from where the last turn ended. The first, in which threads, caches and the loader come to
  // speed, is not timed. Every turn has a loader of its own, so that none begins with batches made in another's time.
  void take_turn(int steps);
  // Frees the model's memory until the next turn.
  void put_away();
  // After the last turn: the trace is whole.
  void finish_trace();
  std::size_t memory_bytes() const { return model_ ? model_->memory_bytes() : 0; }

  const ComparedPlan& plan() const { return args_.plan; }
  const FoldPlan& fold() const { return fold_; }
  const std::vector<Turn>& turns() const { return turns_; }
  const std::vector<double>& losses() const { return losses_; }          // of every step
  const Gradients& first_gradients() const { return first_gradients_; }  // of the first step
  void forget_gradients() { first_gradients_.clear(); }
  const std::vector<std::vector<Traffic>>& traffic() const { return traffic_; }  // by rank
  const std::vector<MemoryUse>& memory() const { return memory_; }               // by rank, after the last turn
  const StepTimeline& timeline() const { return timeline_; }                     // of the last step; none of a GPU
  const Arithmetic& arithmetic() const { return arithmetic_; }
  bool on_host() const { return on_host_; }

 private:
  void make_model();
  void look_at_model();
  TraceStep step(Loader& loader, Turn* turn);

  ContestantArgs args_;
  std::int64_t steps_per_epoch_ = 0;
  std::unique_ptr<FoldedModel> model_;
  FoldPlan fold_;
  bool on_host_ = true;
  int timed_steps_ = 0;  // of this model, since it was last made
  std::vector<Turn> turns_;
  std::vector<double> losses_;
  Gradients first_gradients_;
  std::vector<std::vector<Traffic>> traffic_;
  std::vector<MemoryUse> memory_;
  StepTimeline timeline_;
  Arithmetic arithmetic_;
  std::unique_ptr<TraceRecorder> trace_;
};

}  // namespace trifold
