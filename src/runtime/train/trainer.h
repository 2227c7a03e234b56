// Trains a job: epochs, evaluation, stop rules, checkpoints, metrics, progress. run() may be called once. In a world
// every process does the same, but only process 0 has the run folder and shows progress.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "parallel/world.h"
#include "runtime/config/job.h"
#include "runtime/train/live_board.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/learner.h"
#include "runtime/train/run_checkpoints.h"

namespace trifold {

struct TrainerOptions {
  std::filesystem::path runs = "runs";  // the folder of all runs
  std::string name;                     // of this one; empty: the job's
  RunMode mode = RunMode::fresh;
  bool progress = true;                          // on standard error
  const std::atomic<bool>* interrupt = nullptr;  // becomes true: end after this step, with a checkpoint
  World* world = nullptr;                        // null: this process is alone
  LiveBoard* live = nullptr;                     // hears what the run does, in place of a progress bar
  // The steps are done by others, who go on while their trainer is lost: where that one stood. Its run folder is gone
  // on with if it is here.
  std::optional<TrainingState> takes_over = {};
  // Who trains; default: ranks of this process or world.
  std::function<std::unique_ptr<Learner>(const Job&, std::shared_ptr<const Dataset> train_set)> make_learner = {};
};

struct EpochSummary {
  std::int64_t epoch = 0;  // from 1
  std::int64_t step = 0;   // updates done
  double train_loss = 0;
  std::optional<double> train_accuracy;  // accuracies: none for regression
  std::optional<double> test_loss;       // test figures: where the epoch was evaluated
  std::optional<double> test_accuracy;
  double learning_rate = 0;
  double images_per_s = 0;
};

struct TrainingOutcome {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  double train_loss = 0;                // mean of the last epoch, or of its part that was done
  std::optional<double> test_accuracy;  // of the saved model; none after an interrupt and for regression
  std::optional<double> test_loss;
  double images_per_s = 0;
  std::size_t peak_bytes = 0;    // of the process
  CheckpointTimes checkpoints;   // that this process saved
  std::string stopped_by;        // "epochs", a stop rule, or "interrupt"
  std::filesystem::path folder;  // of process 0
};

class Trainer {
 public:
  Trainer(const Job& job, TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // `on_epoch` hears of every finished epoch, in process 0.
  TrainingOutcome run(const std::function<void(const EpochSummary&)>& on_epoch = {});

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trifold
