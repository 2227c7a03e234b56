// One model, trained by the ranks of this process: each has a thread and its part of the network. A plan of one rank
// takes the same way, on the thread that calls.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/rank_groups.h"
#include "parallel/rank_team.h"
#include "runtime/config/job.h"
#include "runtime/train/evaluator.h"
#include "runtime/train/fold_plan.h"
#include "runtime/train/model.h"

namespace trifold {

class FoldedModel {
 public:
  // Compiles every rank's programs, checks that they fit, and takes the memory.
  explicit FoldedModel(const Job& job);

  const FoldPlan& plan() const { return plan_; }
  Device& device() const { return ranks_.front().chunks.front()->device(); }
  bool has_targets() const { return has_targets_; }
  std::size_t memory_bytes() const;  // of all ranks
  std::size_t memory_bytes(int rank) const;

  // One update. `batch` is the whole global batch; null: the one that was submitted.
  void start_step(const Batch* batch, const StepContext& context);
  // The next batch, while a device still works on this one. Only where takes_batch_early().
  void submit(const Batch& batch);
  bool takes_batch_early() const;
  Executable::Report finish_step();  // of the whole batch

  Score evaluate(Loader& loader);

  std::optional<Model::LossScale> loss_scale() const { return ranks_.front().chunks.front()->loss_scale(); }
  void initialize(std::uint64_t seed);
  // Whole tensors under the network's names, whatever rank holds which part.
  Model::Snapshot snapshot(Model::Contents contents) const;
  void load(const SafetensorsFile& file, Model::Contents contents);

 private:
  struct Rank {
    std::unique_ptr<RankGroups> groups;
    std::vector<std::unique_ptr<Model>> chunks;
    SlottedActions actions;
    Executable::Report report;  // of this step
    std::int64_t submitted_sample = -1;
  };

  void for_each_rank(const std::function<void(Rank&)>& work);
  void step(Rank& rank, const Batch* batch, StepContext context);
  void whole_step(Rank& rank, const Batch* batch, StepContext context);
  void pipelined_step(Rank& rank, const Batch& batch, StepContext context);
  std::int64_t first_of(const Rank& rank, int micro_batch) const;  // sample of the batch

  Job job_;
  FoldPlan plan_;
  std::int64_t micro_batch_ = 0;  // samples of one, on one replica
  bool has_targets_ = false;
  std::vector<Rank> ranks_;
  std::unique_ptr<RankTeam> team_;
};

}  // namespace trifold
