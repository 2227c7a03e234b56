// The "train" section of a job: how long, how fast and with which optimiser.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/ops/optimizer.h"
#include "runtime/compiler/recompute.h"
#include "runtime/config/json_source.h"
#include "runtime/config/learning_schedule.h"
#include "runtime/config/object_type.h"

namespace trifold {

// 0 switches a rule off.
struct StopRules {
  double loss_delta = 0;       // the epoch's loss changed by less than this
  std::int64_t patience = 0;   // epochs without a better test accuracy (loss_delta set: that may change too little)
  double target_accuracy = 0;  // of the test set, 0..1
  double minutes = 0;
  // Of nodes of a cluster: that their models differ by less than this (node_difference.h), and that loss_delta, with
  // its patience, is asked of every node's own loss.
  double model_distance = 0;
  double output_kl = 0;
  bool each_node = false;

  bool operator==(const StopRules&) const = default;
};

struct CheckpointRules {
  std::int64_t every_epochs = 1;  // at most one of the two is above 0; both 0: only at the end
  std::int64_t every_steps = 0;
  std::int64_t keep = 2;                             // older ones are removed
  std::int64_t shard_bytes = std::int64_t{2} << 30;  // a larger one is several files and an index

  bool operator==(const CheckpointRules&) const = default;
};

struct TensorboardRules {
  bool histograms = true;  // of weights and gradients, at the end of every epoch

  bool operator==(const TensorboardRules&) const = default;
};

enum class Math { fast, strict };

struct TrainConfig {
  std::int64_t epochs = 10;
  std::int64_t batch = 64;      // global: samples an update
  std::int64_t accumulate = 1;  // micro-batches an update
  std::int64_t bn_group = 64;   // samples whose statistics batch norm takes together
  std::uint64_t seed = 1;
  DType precision = DType::f32;
  LossScaling loss_scaling = {};  // with fp16
  bool own_kernels = false;       // convolutions on a GPU
  bool graphs = true;             // a GPU's step is recorded and replayed
  Math math = Math::fast;
  Recompute recompute = Recompute::cheap;
  OptimizerArgs optimizer;
  bool decay_bias = false;    // weight decay for biases and batch norm too
  LearningSchedule schedule;  // its base_rate is optimizer.lr
  StopRules stop;
  std::int64_t eval_every = 1;  // epochs
  CheckpointRules checkpoint;
  TensorboardRules tensorboard;
  std::int64_t memory_limit_bytes = 0;  // 0: what the machine has
  int threads = 0;                      // 0: one a core

  std::int64_t micro_batch() const { return batch / accumulate; }
};

bool operator==(const TrainConfig& a, const TrainConfig& b);

const NestedType& train_section();

// `section` may be null: all defaults. `job` is where errors point to then.
TrainConfig read_train(const JsonNode* section, const JsonNode& job);

const char* name_of(Math math);

}  // namespace trifold
