// Runs a small network under a plan, on drawn batches: the same weights and samples every time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/train/parallel_model.h"

namespace trifold::test {

struct FoldRun {
  std::vector<double> losses;                            // of every step
  std::map<std::string, std::vector<float>> parameters;  // after the last step, whole, by name
};

struct FoldOptions {
  std::int64_t batch = 16;
  std::int64_t accumulate = 1;
  std::int64_t bn_group = 4;
  double learning_rate = 0.02;
  int steps = 20;
  DType precision = DType::f32;
  OptimizerArgs optimizer = {};
  double loss_scale = 0;  // of fp16 at first; 0: the default
  std::string device = "cpu";
  bool graphs = true;  // of GPUs
};

// Drawn images for the network to train on.
DataSource synthetic_source(const NetworkSpec& network, std::int64_t train_samples);

Job fold_job(const NetworkSpec& network, const PlanConfig& plan, const FoldOptions& options);
// One step, on the samples that come after those of `step` others.
double step_fold(ParallelModel& model, const Job& job, int step, double learning_rate);
// The losses of so many steps from where the model is.
std::vector<double> train_fold(ParallelModel& model, const Job& job, int steps, double learning_rate);
FoldRun run_fold(const Job& job, int steps, double learning_rate);
FoldRun run_fold(const NetworkSpec& network, const PlanConfig& plan, const FoldOptions& options);
// Half of the steps under one plan, a checkpoint, the rest under another.
FoldRun run_fold_in_turns(const NetworkSpec& network, const PlanConfig& first, const PlanConfig& then,
                          const FoldOptions& options);

}  // namespace trifold::test
