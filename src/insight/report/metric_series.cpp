#include "insight/report/metric_series.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/error.h"
#include "insight/report/short_number.h"

namespace trifold {
namespace {

using ReportJson = nlohmann::ordered_json;

// What a line says of itself; all else that is a number is a figure.
bool is_place(const std::string& key) {
  return key == "step" || key == "epoch" || key == "phase" || key == "time_s";
}

// `time_s`: of the last line that had one. A test has none of its own: it is drawn where the steps before it ended.
void add_line(Metrics& metrics, const ReportJson& line, std::optional<double>& time_s) {
  const auto step = line.at("step").get<std::int64_t>();
  const std::string phase = line.value("phase", "train");
  metrics.steps = std::max(metrics.steps, step);
  metrics.epochs = std::max(metrics.epochs, line.value("epoch", std::int64_t{0}));
  const auto time = line.find("time_s");
  if (time != line.end() && time->is_number()) time_s = time->get<double>();
  for (const auto& [key, value] : line.items()) {
    if (is_place(key)) continue;
    if (value.is_null()) metrics.lost_values += 1;
    if (value.is_number()) metrics.series[phase][key].add(step, time_s, value.get<double>());
  }
}

ReportJson series_json(const MetricSeries& series) {
  ReportJson step = ReportJson::array();
  ReportJson time = ReportJson::array();
  ReportJson mean = ReportJson::array();
  ReportJson least = ReportJson::array();
  ReportJson most = ReportJson::array();
  bool timed = true;
  for (const SeriesPoint& point : series.points()) {
    step.push_back(point.step);
    timed = timed && point.time_s.has_value();
    time.push_back(short_number(point.time_s.value_or(0)));
    mean.push_back(short_number(point.mean()));
    least.push_back(short_number(point.least));
    most.push_back(short_number(point.most));
  }
  ReportJson json = {{"step", step}, {"mean", mean}};
  if (timed) json["time_s"] = time;
  if (series.values_a_point() > 1)
    json.update({{"values_a_point", series.values_a_point()}, {"min", least}, {"max", most}});
  return json;
}

}  // namespace

void MetricSeries::add(std::int64_t step, std::optional<double> time_s, double value) {
  if (points_.empty() || points_.back().count == width_) {
    if (points_.size() == kMostPoints) halve();
    if (points_.empty() || points_.back().count == width_) points_.push_back({.least = value, .most = value});
  }
  SeriesPoint& point = points_.back();
  point.step = step;
  point.time_s = time_s;
  point.count += 1;
  point.sum += value;
  point.least = std::min(point.least, value);
  point.most = std::max(point.most, value);
}

void MetricSeries::halve() {
  std::vector<SeriesPoint> joined;
  for (std::size_t i = 0; i < points_.size(); i += 2) {
    SeriesPoint point = points_[i];
    if (i + 1 < points_.size()) {
      const SeriesPoint& next = points_[i + 1];
      point = {.step = next.step,
               .time_s = next.time_s,
               .count = point.count + next.count,
               .sum = point.sum + next.sum,
               .least = std::min(point.least, next.least),
               .most = std::max(point.most, next.most)};
    }
    joined.push_back(point);
  }
  points_ = std::move(joined);
  width_ *= 2;
}

Metrics read_metrics(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) fail_input("cannot read '{}'", file.string());
  Metrics metrics;
  std::optional<double> time_s;
  std::string text;
  for (std::int64_t number = 1; std::getline(in, text); ++number) {
    const bool torn = in.eof();  // the last line, without its newline
    if (text.empty()) continue;
    const ReportJson line = ReportJson::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool whole = line.is_object() && line.contains("step") && line["step"].is_number_integer() &&
                       (!line.contains("phase") || line["phase"].is_string()) &&
                       (!line.contains("epoch") || line["epoch"].is_number_integer());
    if (whole)
      add_line(metrics, line, time_s);
    else if (!torn)
      fail_input("{}:{}: this line is no JSON object with a \"step\"; remove it, then write the report again",
                 file.string(), number);
  }
  if (in.bad()) fail_input("cannot read '{}'", file.string());
  return metrics;
}

ReportJson to_json(const Metrics& metrics) {
  ReportJson json = ReportJson::object();
  for (const auto& [phase, names] : metrics.series)
    for (const auto& [name, series] : names) json[phase][name] = series_json(series);
  return {{"steps", metrics.steps}, {"epochs", metrics.epochs}, {"lost_values", metrics.lost_values}, {"series", json}};
}

}  // namespace trifold
