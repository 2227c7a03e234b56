// What a worker of a job computes in a clock: the gradient of one batch of a shard, or what several steps on its own
// come to (plan.sync.period, federated rounds). Any plan may divide the work within the worker.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cluster/local_training.h"
#include "runtime/cluster/worker.h"
#include "runtime/config/job.h"
#include "runtime/train/parallel_model.h"
#include "runtime/train/shard_data.h"

namespace trifold {

class ModelWork final : public ShardWork {
 public:
  ModelWork(const Job& job, std::shared_ptr<const Dataset> training_set);

  std::int64_t clocks() const;  // of the whole job, a shard
  const ShardData& data() const { return data_; }

  std::vector<ServedTensor> tensors() const override { return tensors_; }
  bool needs(int shard, std::int64_t clock, int tensor) const override;
  double learning_rate(std::int64_t clock) const override;
  double weight(int shard) const override { return data_.weight(shard); }
  Result compute(int shard, std::int64_t clock, ParameterExchange& exchange) override;
  // Ranks that wait for each other are not to be told that one of them has stopped.
  bool can_be_interrupted() const override { return local_args_ || model_.ranks_here() == 1; }
  void give_up(int shard) override;
  bool compares_after(std::int64_t clock) const override;
  std::optional<NodeDifference> compare(int shard, const std::vector<std::vector<float>>& common) override;

 private:
  // A shard's batches, read ahead.
  struct Stream {
    std::unique_ptr<Loader> loader;
    std::int64_t next = 0;  // step of the shard
  };
  // The model keeps the exchange it is given; a clock's is another each time.
  class Route final : public ParameterExchange {
   public:
    bool need_parameter(int tensor, std::span<float> values) override { return to->need_parameter(tensor, values); }
    void gradient_ready(int tensor, std::span<const float> values) override { to->gradient_ready(tensor, values); }
    ParameterExchange* to = nullptr;
  };

  // Training of a shard on its own, of which something may stay with it from clock to clock.
  struct Local {
    Local(const std::vector<ServedTensor>& tensors, const LocalTrainingArgs& args) : training(tensors, args) {}

    LocalTraining training;
    std::int64_t clock = -1;  // its last whole one
  };

  std::int64_t steps_of_clock(int shard) const;
  Local& local_of(int shard);
  Result train(int shard, std::int64_t clock, ParameterExchange& exchange);
  std::vector<float> outputs_with(const std::vector<std::vector<float>>& values);
  Result step(int shard, std::int64_t step, std::int64_t clock, ParameterExchange& exchange);

  const Job job_;
  const std::int64_t clocks_per_epoch_;
  ShardData data_;
  Job own_;  // of a shard
  ParallelModel model_;
  Route route_;
  const std::vector<ServedTensor> tensors_;
  const bool partial_;  // some tensor is not synchronised in every clock
  std::optional<LocalTrainingArgs> local_args_;
  std::map<int, Local> locals_;  // by shard; where nothing stays with it, one for all
  std::map<int, Stream> streams_;
  std::map<int, std::vector<std::vector<float>>> left_with_;  // by shard: its model after a clock that is compared
  std::optional<Batch> probe_;                                // of which outputs are compared
};

}  // namespace trifold
