// Trains a job: epochs, evaluation, stop rules, checkpoints. What is written and shown of it is up to its observers. In
// a world every process does the same, but only process 0 has the run folder and observers.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/world.h"
#include "runtime/config/job.h"
#include "runtime/train/learner.h"
#include "runtime/train/run_checkpoints.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/training_observer.h"

namespace trifold {

struct TrainerOptions {
  std::filesystem::path runs = "runs";  // the folder of all runs
  std::string name;                     // of this one; empty: the job's
  RunMode mode = RunMode::fresh;
  const std::atomic<bool>* interrupt = nullptr;   // becomes true: end after this step, with a checkpoint
  World* world = nullptr;                         // null: this process is alone
  std::vector<TrainingObserver*> observers = {};  // in process 0; they must outlive the trainer
  // The steps are done by others, who go on while their trainer is lost: where that one stood. Continues in its run
  // folder, if it is here.
  std::optional<TrainingState> takes_over = {};
  // Who trains; default: ranks of this process or world.
  std::function<std::unique_ptr<Learner>(const Job&, std::shared_ptr<const Dataset> train_set)> make_learner = {};
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

  TrainingOutcome run();  // once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trifold
