#include "insight/metrics/run_log.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "insight/metrics/evaluation_report.h"
#include "runtime/checkpoint/atomic_file.h"

namespace trifold {

void RunLog::on_begin(const RunStart& start) {
  folder_ = start.folder;
  metrics_ = start.resumed_at ? MetricsLog::resume(folder_->metrics_jsonl(), *start.resumed_at)
                              : MetricsLog::start(folder_->metrics_jsonl());
  tensorboard_.emplace(folder_->tensorboard(), start.resumed_at);
}

void RunLog::on_step(const StepReport& report) {
  std::vector<Metric> values = {{"loss", report.loss}};
  if (report.accuracy) values.push_back({"accuracy", *report.accuracy});
  values.insert(values.end(), {{"learning_rate", report.learning_rate},
                               {"images_per_s", report.images_per_s},
                               {"time_s", report.trained_seconds}});
  if (report.loss_scale)
    values.insert(values.end(),
                  {{"loss_scale", report.loss_scale->scale}, {"skipped_updates", report.loss_scale->skipped}});
  values.insert(values.end(), report.learner_metrics.begin(), report.learner_metrics.end());
  write(report.step, report.epoch, "train", values);
}

void RunLog::on_evaluation(const EvaluationReport& report) {
  std::vector<Metric> values = {{"loss", report.loss}};
  if (report.accuracy) values.push_back({"accuracy", *report.accuracy});
  write(report.step, report.epoch, "test", values);
}

void RunLog::on_evaluation_details(std::int64_t step, const EvaluationDetails& details, const Dataset& test_set) {
  write_file_atomically(folder_->evaluation_json(), evaluation_json(details, test_set));
  const std::vector<NamedImage> images = misclassified_images(details, test_set);
  if (!images.empty()) tensorboard_->write(step, images);
}

void RunLog::on_tensors(std::string_view kind, const Model::Snapshot& tensors, double scale) {
  for (const NamedTensor& tensor : tensors.tensors()) {
    const std::span numbers(reinterpret_cast<const float*>(tensor.data.data()), tensor.data.size() / sizeof(float));
    histograms_.push_back({fmt::format("{}/{}", kind, tensor.name), make_histogram(numbers, scale)});
  }
}

void RunLog::on_epoch(const EpochSummary& summary) {
  if (histograms_.empty()) return;
  tensorboard_->write(summary.step, histograms_);
  histograms_.clear();
}

void RunLog::on_nodes(std::int64_t step, std::int64_t epoch, const std::vector<Metric>& values) {
  write(step, epoch, "nodes", values);
}

void RunLog::write(std::int64_t step, std::int64_t epoch, std::string_view phase, const std::vector<Metric>& values) {
  metrics_->write({.step = step, .epoch = epoch, .phase = phase, .values = values});
  std::vector<std::string> tags;
  for (const Metric& metric : values) tags.push_back(fmt::format("{}/{}", phase, metric.name));
  std::vector<Metric> tagged = values;
  for (std::size_t i = 0; i < tagged.size(); ++i) tagged[i].name = tags[i];
  tensorboard_->write(step, tagged);
}

}  // namespace trifold
