// What a run writes of itself into its folder while it trains: the job as it was resolved, metrics.jsonl, TensorBoard's
// events, evaluation.json.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/config/job.h"
#include "insight/metrics/evaluation_report.h"
#include "runtime/train/metric.h"
#include "insight/metrics/metrics_log.h"
#include "runtime/train/run_folder.h"
#include "insight/metrics/tensorboard_writer.h"

namespace trifold {

class RunLog {
 public:
  // `resumed_at`: goes on after so many steps, and forgets what was written of later ones; null: begins.
  RunLog(const RunFolder& folder, const Job& job, std::optional<std::int64_t> resumed_at);

  struct Place {
    std::int64_t step = 0;
    std::int64_t epoch = 0;  // from 1
  };
  void write(const Place& place, std::string_view phase, const std::vector<Metric>& values);
  void write(std::int64_t step, std::span<const NamedHistogram> histograms);
  // The last evaluation of a run, sample by sample.
  void write(std::int64_t step, const EvaluationDetails& details, const Dataset& test_set);

 private:
  RunFolder folder_;
  MetricsLog metrics_;
  TensorboardWriter tensorboard_;
};

}  // namespace trifold
