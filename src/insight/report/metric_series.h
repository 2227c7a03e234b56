// metrics.jsonl as series short enough to draw: read once, line by line, in memory that does not grow with the run. A
// series holds at most kMostPoints points; where a run has more steps, a point stands for a run of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trifold {

// A run of consecutive values.
struct SeriesPoint {
  std::int64_t step = 0;              // the last one
  std::optional<double> time_s = {};  // at that step
  std::int64_t count = 0;
  double sum = 0;
  double least = 0;
  double most = 0;

  double mean() const { return sum / static_cast<double>(count); }
};

class MetricSeries {
 public:
  static constexpr std::size_t kMostPoints = 500;

  void add(std::int64_t step, std::optional<double> time_s, double value);
  const std::vector<SeriesPoint>& points() const { return points_; }
  std::int64_t values_a_point() const { return width_; }

 private:
  void halve();

  std::vector<SeriesPoint> points_;
  std::int64_t width_ = 1;  // values in every point but the last
};

struct Metrics {
  std::map<std::string, std::map<std::string, MetricSeries>> series;  // by phase ("train"), then by name ("loss")
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::int64_t lost_values = 0;  // null in the file: NaN or infinite
};

// A torn last line is left out: the run may still be going on. Any other damage is an input error with its line.
Metrics read_metrics(const std::filesystem::path& file);

// Columns: {"train": {"loss": {"step": [..], "time_s": [..], "mean": [..], "min": [..], "max": [..]}}}; min and max
// only where a point stands for several values.
nlohmann::ordered_json to_json(const Metrics& metrics);

}  // namespace trifold
