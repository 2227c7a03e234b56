// Writes a run into its folder while it trains: metrics.jsonl, TensorBoard's events, evaluation.json.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "insight/metrics/metrics_log.h"
#include "insight/metrics/tensorboard_writer.h"
#include "runtime/train/training_observer.h"

namespace trifold {

class RunLog final : public TrainingObserver {
 public:
  // A resumed run goes on after the step it was resumed at; what was written of later steps is removed.
  void on_begin(const RunStart& start) override;
  void on_step(const StepReport& report) override;
  void on_evaluation(const EvaluationReport& report) override;
  void on_evaluation_details(std::int64_t step, const EvaluationDetails& details, const Dataset& test_set) override;
  void on_tensors(std::string_view kind, const Model::Snapshot& tensors, double scale) override;
  void on_epoch(const EpochSummary& summary) override;
  void on_nodes(std::int64_t step, std::int64_t epoch, const std::vector<Metric>& values) override;

 private:
  void write(std::int64_t step, std::int64_t epoch, std::string_view phase, const std::vector<Metric>& values);

  std::optional<RunFolder> folder_;
  std::optional<MetricsLog> metrics_;
  std::optional<TensorboardWriter> tensorboard_;
  std::vector<NamedHistogram> histograms_;  // of an epoch: one event
};

}  // namespace trifold
