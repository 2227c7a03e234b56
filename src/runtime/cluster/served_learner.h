// Trains by a cluster: its workers do the steps, its servers have the model, and here, at the manager, is what a
// trainer asks for: what each clock brought, and the model as it was at a cut.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "parallel/servers/client/server_client.h"
#include "parallel/servers/manager/cluster_manager.h"
#include "runtime/cluster/cluster_display.h"
#include "runtime/cluster/cluster_plan.h"
#include "runtime/cluster/durable_progress.h"
#include "runtime/cluster/shard_paces.h"
#include "runtime/train/learner.h"

namespace trifold {

// The manager's side of a cluster, once the model is known.
class ClusterSide {
 public:
  virtual ~ClusterSide() = default;
  // Lets everybody know the plan, and begins to lead.
  virtual ClusterManager& open(const ServicePlan& plan) = 0;
  virtual ServerClient& client() = 0;  // once it is open
  // Called by whoever waits for the cluster, every now and then. Throws where it cannot go on.
  virtual void look_after_members() = 0;
  // Notes where training stands, for a manager that takes over from this one. False: the registry cannot be reached
  // now.
  virtual bool keep_progress(const TrainingState& state) = 0;
};

class ServedLearner final : public Learner {
 public:
  ServedLearner(const Job& job, std::shared_ptr<const Dataset> train_set, ClusterSide& cluster);

  void initialize(std::uint64_t seed) override;
  void load(const SafetensorsFile& file) override;
  void begin(std::int64_t epoch, std::int64_t step_of_epoch) override;
  std::int64_t steps_per_epoch() const override { return steps_per_epoch_; }
  Executable::Report step(const StepContext& context, bool more) override;
  std::int64_t samples_of_step() const override { return samples_; }
  Score evaluate(const std::shared_ptr<const Dataset>& dataset, EvaluationDetails* details) override;
  Model::Snapshot snapshot(Model::Contents contents) override;
  std::int64_t steps_until_end(std::int64_t steps) override;
  std::vector<Metric> metrics_of_step() const override;
  std::vector<std::string> closing_lines() const override;
  std::optional<NodeFigures> nodes_of_epoch() override;
  void on_durable_progress(const TrainingState& state) override;
  bool asked_to_end() const override { return manager_->asked_to_end(); }
  void show_on(LiveBoard& board) override;

 private:
  std::vector<SliceState> first_states() const;
  const FetchedModel& fetch();
  void wait_until_applied(std::int64_t clock);
  void look_after_cluster();
  void release_cuts();

  Job alone_;  // the job, of one rank
  std::shared_ptr<const Dataset> train_set_;
  ClusterSide& cluster_;
  ParallelModel model_;
  ServicePlan plan_;
  ServedLayout layout_;
  std::map<std::string, Shape> shapes_;               // of tensors
  std::vector<std::string> state_names_;              // of the servers' optimiser
  std::map<std::string, std::vector<float>> loaded_;  // its states, of a checkpoint
  std::int64_t steps_per_epoch_ = 0;
  std::string division_;    // of the data, where it may be uneven
  bool begins_ = false;     // with values of its own, so that they are the model's after no step only
  std::int64_t steps_ = 0;  // done
  DurableProgress progress_;
  ClusterManager* manager_ = nullptr;
  Executable::Report last_;
  struct LossOfShard {
    double sum = 0;
    std::int64_t steps = 0;
  };
  std::map<int, LossOfShard> losses_;  // of this epoch
  ShardPaces paces_;                   // of the run
  std::optional<ClusterDisplay> display_;
  std::int64_t samples_ = 0;  // of the last step
  std::optional<FetchedModel> fetched_;
  std::int64_t fetched_at_ = -1;
};

}  // namespace trifold
