// Trains a folded model by the batches of its own loader: in this process, or in the processes of a world.
#pragma once

#include <memory>

#include "runtime/train/job_data.h"
#include "runtime/train/learner.h"

namespace trifold {

class ParallelLearner final : public Learner {
 public:
  ParallelLearner(const Job& job, std::shared_ptr<const Dataset> train_set, const World* world);

  void initialize(std::uint64_t seed) override { model_.initialize(seed); }
  void load(const SafetensorsFile& file) override { model_.load(file, Model::Contents::model_and_optimizer); }
  void begin(std::int64_t epoch, std::int64_t step_of_epoch) override;
  std::int64_t steps_per_epoch() const override { return loader_->steps_per_epoch(); }
  Executable::Report step(const StepContext& context, bool more) override;
  std::int64_t samples_of_step() const override { return job_.train.batch; }
  Score evaluate(const std::shared_ptr<const Dataset>& dataset, EvaluationDetails* details) override;
  Model::Snapshot snapshot(Model::Contents contents) override { return model_.snapshot(contents); }
  bool evaluation_merges_replicas() const override { return model_.plan().sync.local(); }
  std::optional<Model::LossScale> loss_scale() const override { return model_.loss_scale(); }
  double waited_for_input_ms() const override { return loader_->waited_ms(); }
  std::size_t device_bytes() const override { return model_.device().host_memory() ? 0 : model_.memory_bytes(); }
  void show_on(LiveBoard& board) override;

 private:
  const Job& job_;
  std::shared_ptr<const Dataset> train_set_;
  const World* world_;
  ParallelModel model_;
  std::unique_ptr<Loader> loader_;
  bool submitted_ = false;  // the next batch is on its way to the device
};

}  // namespace trifold
