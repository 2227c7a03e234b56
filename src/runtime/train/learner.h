// What a trainer trains: a model that takes one step after the other, wherever its work is done. folded_learner.h: by
// ranks of this process or world.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/step_context.h"
#include "runtime/checkpoint/training_state.h"
#include "runtime/train/metric.h"
#include "runtime/train/parallel_model.h"
#include "runtime/train/stop_rules.h"

namespace trifold {

class LiveBoard;

class Learner {
 public:
  Learner() = default;
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;
  virtual ~Learner() = default;

  // First one of these two, then begin().
  virtual void initialize(std::uint64_t seed) = 0;
  virtual void load(const SafetensorsFile& file) = 0;  // model and optimiser
  // Ready for the first step, which is this one of this epoch.
  virtual void begin(std::int64_t epoch, std::int64_t step_of_epoch) = 0;

  virtual std::int64_t steps_per_epoch() const = 0;  // once it has begun
  // One update of the model, by the next batch. more: another step will follow.
  virtual Executable::Report step(const StepContext& context, bool more) = 0;
  virtual std::int64_t samples_of_step() const = 0;  // of the last one
  // Of the model after the last step. `details`, if given, hear of every sample.
  virtual Score evaluate(const std::shared_ptr<const Dataset>& dataset, EvaluationDetails* details) = 0;
  virtual Model::Snapshot snapshot(Model::Contents contents) = 0;

  // Where the steps are done by others, they may be ahead: the number of steps after which training can end, if it is
  // to end now, after `steps` of them.
  virtual std::int64_t steps_until_end(std::int64_t steps) { return steps; }

  // What else is to be logged of the last step.
  virtual std::vector<Metric> metrics_of_step() const { return {}; }
  // What a person should know of the run when it has ended.
  virtual std::vector<std::string> closing_lines() const { return {}; }
  // Where nodes of a cluster train: what they say of the epoch whose steps have just been done. Asked once an epoch.
  virtual std::optional<NodeFigures> nodes_of_epoch() { return std::nullopt; }

  // Called when training has reached `state` and everything before it is saved: a process that takes over from this one
  // needs nothing older.
  virtual void on_durable_progress(const TrainingState& /*state*/) {}
  // Whoever trained before us was asked to end it.
  virtual bool asked_to_end() const { return false; }

  // True for replicas that update on their own: evaluating the model averages them, which changes what is trained.
  virtual bool evaluation_merges_replicas() const { return false; }
  virtual std::optional<Model::LossScale> loss_scale() const { return std::nullopt; }
  virtual double waited_for_input_ms() const { return 0; }
  virtual std::size_t device_bytes() const { return 0; }  // of devices with memory of their own

  // Once it has begun: says what there is to show of it, and from then on what it does.
  virtual void show_on(LiveBoard& board) = 0;
};

}  // namespace trifold
