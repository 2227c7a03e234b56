// Sampling of metrics.jsonl: few points, however long the run, that keep its extremes and its mean.
#include "insight/report/metric_series.h"

#include <fstream>

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

class MetricSeriesTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) const {
    const std::filesystem::path file = directory_.path() / "metrics.jsonl";
    std::ofstream(file) << text;
    return file;
  }

  testing::TemporaryDirectory directory_;
};

TEST(MetricSeries, KeepsAShortRunAsItIs) {
  MetricSeries series;
  for (int step = 1; step <= 500; ++step) series.add(step, std::nullopt, step);
  ASSERT_EQ(series.points().size(), 500u);
  EXPECT_EQ(series.values_a_point(), 1);
  EXPECT_EQ(series.points()[41].step, 42);
  EXPECT_EQ(series.points()[41].mean(), 42);
}

TEST(MetricSeries, JoinsNeighboursOfALongRun) {
  MetricSeries series;
  double sum = 0;
  for (int step = 1; step <= 100'000; ++step) {
    const double value = step == 77'777 ? -5 : step == 12'345 ? 999 : step % 10;
    sum += value;
    series.add(step, step * 0.5, value);
  }
  EXPECT_LE(series.points().size(), MetricSeries::kMostPoints);
  EXPECT_GE(series.points().size(), MetricSeries::kMostPoints / 2 - 1);
  double found = 0;
  double least = 0;
  double most = 0;
  std::int64_t count = 0;
  std::int64_t before = 0;
  for (const SeriesPoint& point : series.points()) {
    found += point.sum;
    count += point.count;
    least = std::min(least, point.least);
    most = std::max(most, point.most);
    EXPECT_EQ(point.step, before + point.count) << "points are runs of steps, one after the other";
    EXPECT_EQ(point.time_s, point.step * 0.5);
    before = point.step;
  }
  EXPECT_EQ(count, 100'000);
  EXPECT_EQ(before, 100'000);
  EXPECT_DOUBLE_EQ(found, sum);
  EXPECT_EQ(least, -5);
  EXPECT_EQ(most, 999);
}

TEST_F(MetricSeriesTest, ReadsPhasesAndFigures) {
  const Metrics metrics = read_metrics(
      write("{\"step\":1,\"epoch\":1,\"phase\":\"train\",\"loss\":2.5,\"time_s\":0.25,\"learning_rate\":0.1}\n"
            "{\"step\":2,\"epoch\":1,\"phase\":\"train\",\"loss\":null,\"time_s\":0.5,\"learning_rate\":0.1}\n"
            "{\"step\":2,\"epoch\":1,\"phase\":\"test\",\"loss\":1.5}\n"));
  EXPECT_EQ(metrics.steps, 2);
  EXPECT_EQ(metrics.lost_values, 1);
  const auto json = to_json(metrics);
  EXPECT_EQ(json["series"]["train"]["loss"].dump(), R"({"step":[1],"mean":[2.5],"time_s":[0.25]})");
  EXPECT_EQ(json["series"]["train"]["learning_rate"]["step"].size(), 2u);
  EXPECT_EQ(json["series"]["test"]["loss"]["time_s"].dump(), "[0.5]") << "when the steps before the test ended";
  const auto untimed = to_json(read_metrics(write("{\"step\":1,\"loss\":2}\n")));
  EXPECT_FALSE(untimed["series"]["train"]["loss"].contains("time_s"));
}

TEST_F(MetricSeriesTest, LeavesOutATornLastLine) {
  EXPECT_EQ(read_metrics(write("{\"step\":1,\"loss\":2}\n{\"step\":2,\"lo")).steps, 1);
}

TEST_F(MetricSeriesTest, NamesADamagedLine) {
  try {
    read_metrics(write("{\"step\":1,\"loss\":2}\nnonsense\n{\"step\":2,\"loss\":1}\n"));
    FAIL() << "took a damaged file";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_NE(std::string(error.what()).find("metrics.jsonl:2:"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trifold
