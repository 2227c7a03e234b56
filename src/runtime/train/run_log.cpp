#include "runtime/train/run_log.h"

#include <string>

#include <fmt/format.h>

#include "runtime/checkpoint/atomic_file.h"

namespace trifold {

RunLog::RunLog(const RunFolder& folder, const Job& job, std::optional<std::int64_t> resumed_at)
    : folder_(folder),
      metrics_(resumed_at ? MetricsLog::resume(folder.metrics_jsonl(), *resumed_at)
                          : MetricsLog::start(folder.metrics_jsonl())),
      tensorboard_(folder.tensorboard(), resumed_at) {
  write_file_atomically(folder.job_json(), to_json_text(job));
}

void RunLog::write(const Place& place, std::string_view phase, const std::vector<Metric>& values) {
  metrics_.write({.step = place.step, .epoch = place.epoch, .phase = phase, .values = values});
  std::vector<std::string> tags;
  for (const Metric& metric : values) tags.push_back(fmt::format("{}/{}", phase, metric.name));
  std::vector<Metric> tagged = values;
  for (std::size_t i = 0; i < tagged.size(); ++i) tagged[i].name = tags[i];
  tensorboard_.write(place.step, tagged);
}

void RunLog::write(std::int64_t step, std::span<const NamedHistogram> histograms) {
  tensorboard_.write(step, histograms);
}

void RunLog::write(std::int64_t step, const EvaluationDetails& details, const Dataset& test_set) {
  write_file_atomically(folder_.evaluation_json(), evaluation_json(details, test_set));
  const std::vector<NamedImage> images = misclassified_images(details, test_set);
  if (!images.empty()) tensorboard_.write(step, images);
}

}  // namespace trifold
