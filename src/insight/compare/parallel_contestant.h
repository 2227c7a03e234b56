// A plan whose ranks are threads of this process: a model that can be put away between turns, and looked into.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "insight/compare/contestant.h"
#include "insight/compare/gradients.h"
#include "insight/compare/memory_use.h"
#include "insight/compare/step_timeline.h"
#include "insight/trace/trace_recorder.h"
#include "insight/work/rank_work.h"
#include "insight/work/traffic.h"
#include "runtime/data/dataset.h"
#include "runtime/train/parallel_model.h"

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

class ParallelContestant final : public Contestant {
 public:
  explicit ParallelContestant(ContestantArgs args);
  ~ParallelContestant() override;
  ParallelContestant(const ParallelContestant&) = delete;
  ParallelContestant& operator=(const ParallelContestant&) = delete;

  // Every turn has a loader of its own, so that none begins with batches made in another's time.
  void take_turn(int steps) override;
  void put_away() override;
  void finish() override;
  std::size_t memory_bytes() const override { return model_ ? model_->memory_bytes() : 0; }

  const ComparedPlan& plan() const override { return args_.plan; }
  double images_per_s(std::size_t turn) const override;
  const std::vector<double>& losses() const override { return losses_; }
  const Gradients* gradients() const override { return &first_gradients_; }
  void forget_gradients() override { first_gradients_.clear(); }
  void describe(PlanResult& result, std::size_t turn) const override;

  const ParallelPlan& fold() const { return fold_; }
  const std::vector<Turn>& turns() const { return turns_; }
  const Gradients& first_gradients() const { return first_gradients_; }
  const std::vector<std::vector<Traffic>>& traffic() const { return traffic_; }  // by rank
  const std::vector<MemoryUse>& memory() const { return memory_; }               // by rank, after the last turn

 private:
  void make_model();
  void look_at_model();
  TraceStep step(Loader& loader, Turn* turn);

  ContestantArgs args_;
  std::int64_t steps_per_epoch_ = 0;
  std::unique_ptr<ParallelModel> model_;
  ParallelPlan fold_;
  bool on_host_ = true;
  int timed_steps_ = 0;  // of this model, since it was last made
  std::vector<Turn> turns_;
  std::vector<double> losses_;
  Gradients first_gradients_;
  std::vector<std::vector<Traffic>> traffic_;
  std::vector<MemoryUse> memory_;
  StepTimeline timeline_;  // of the last step; none of a GPU
  Arithmetic arithmetic_;
  std::unique_ptr<TraceRecorder> trace_;
};

}  // namespace trifold
