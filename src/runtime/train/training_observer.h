// What others see of a run while it trains: RunLog writes it down, ProgressLines shows it as lines, LiveObserver hands
// it to the live view. A trainer calls its observers in their order, on the training thread, in process 0 of a world.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/train/learner.h"
#include "runtime/train/metric.h"
#include "runtime/train/run_folder.h"

namespace trifold {

struct RunStart {
  const Job& job;
  const RunFolder& folder;
  std::optional<std::int64_t> resumed_at = {};  // updates that were done before; none: a new run
  Learner& learner;
};

// One update.
struct StepReport {
  std::int64_t step = 0;           // updates done
  std::int64_t epoch = 0;          // from 1
  std::int64_t step_of_epoch = 0;  // updates done in this epoch
  std::int64_t steps_per_epoch = 0;
  double loss = 0;
  std::optional<double> accuracy = {};  // accuracies: 0 to 1; none for regression
  double epoch_loss = 0;                // mean of this epoch so far
  std::optional<double> epoch_accuracy = {};
  double learning_rate = 0;
  double images_per_s = 0;
  double trained_seconds = 0;  // of the run, over all its processes
  std::optional<Model::LossScale> loss_scale = {};
  std::vector<Metric> learner_metrics = {};  // Learner::metrics_of_step
  // Of this process.
  std::int64_t images = 0;
  std::int64_t images_left = 0;
  double seconds = 0;
  double input_wait_fraction = 0;
};

struct EvaluationReport {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // from 1
  double loss = 0;
  std::optional<double> accuracy = {};
  std::optional<double> best_accuracy = {};  // of the run, with this one
};

struct EpochSummary {
  std::int64_t epoch = 0;  // from 1
  std::int64_t epochs = 0;
  std::int64_t step = 0;  // updates done
  double train_loss = 0;
  std::optional<double> train_accuracy = {};  // accuracies: none for regression
  std::optional<double> test_loss = {};       // test figures: where the epoch was evaluated
  std::optional<double> test_accuracy = {};
  std::optional<double> best_test_accuracy = {};
  double learning_rate = 0;
  double images_per_s = 0;
};

class TrainingObserver {
 public:
  TrainingObserver() = default;
  TrainingObserver(const TrainingObserver&) = delete;
  TrainingObserver& operator=(const TrainingObserver&) = delete;
  virtual ~TrainingObserver() = default;

  enum class Stage { training, evaluating, ending };

  // Sentences for the person who waits; both may come before on_begin. A warning is worth showing on a quiet run too.
  virtual void on_message(const std::string& /*line*/) {}
  virtual void on_warning(const std::string& /*line*/) {}
  virtual void on_begin(const RunStart& /*start*/) {}
  virtual void on_stage(Stage /*stage*/) {}
  virtual void on_step(const StepReport& /*report*/) {}
  virtual void on_checkpoint_begun(std::int64_t /*step*/) {}
  virtual void on_checkpoint_written() {}
  virtual void on_evaluation(const EvaluationReport& /*report*/) {}
  // The last evaluation of a run, sample by sample.
  virtual void on_evaluation_details(std::int64_t /*step*/, const EvaluationDetails& /*details*/,
                                     const Dataset& /*test_set*/) {}
  // At the end of an epoch, if train.tensorboard.histograms is set: all tensors of one `kind`, "weights" or
  // "gradients", to be multiplied by `scale`.
  virtual void on_tensors(std::string_view /*kind*/, const Model::Snapshot& /*tensors*/, double /*scale*/) {}
  virtual void on_epoch(const EpochSummary& /*summary*/) {}
  // What the nodes of a cluster reported of an epoch.
  virtual void on_nodes(std::int64_t /*step*/, std::int64_t /*epoch*/, const std::vector<Metric>& /*values*/) {}
  // No step will follow. An evaluation and a checkpoint may.
  virtual void on_training_end() {}
};

// The observers of a run; none in processes other than the first of a world.
class Observers {
 public:
  explicit Observers(std::vector<TrainingObserver*> all) : all_(std::move(all)) {}

  template <class... Parameters, class... Args>
  void tell(void (TrainingObserver::*event)(Parameters...), const Args&... args) const {
    for (TrainingObserver* observer : all_) (observer->*event)(args...);
  }

 private:
  std::vector<TrainingObserver*> all_;
};

}  // namespace trifold
