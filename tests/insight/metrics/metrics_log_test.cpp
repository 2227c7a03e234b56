// The log after a resume is the log of a run that never stopped.
#include "insight/metrics/metrics_log.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

void write_step(MetricsLog& log, std::int64_t step) {
  const std::vector<Metric> values{{"loss", 1.0 / static_cast<double>(step)}};
  log.write({.step = step, .epoch = step / 4, .phase = "train", .values = values});
}

std::string log_of_steps(int last) {
  const TemporaryDirectory directory;
  MetricsLog log = MetricsLog::start(directory / "m.jsonl");
  for (int step = 1; step <= last; ++step) write_step(log, step);
  return read_file(directory / "m.jsonl");
}

TEST(MetricsLog, ALineIsOneObject) {
  const std::vector<Metric> values{{"loss", 0.25}, {"accuracy", 1.0 / 3}};
  EXPECT_EQ(to_json_text(MetricsLine{.step = 7, .epoch = 1, .phase = "test", .values = values}),
            R"({"step":7,"epoch":1,"phase":"test","loss":0.25,"accuracy":0.3333333333333333})");
}

TEST(MetricsLog, WhatJsonCannotHoldIsNull) {
  const std::vector<Metric> values{{"loss", std::nan("")}, {"norm", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(to_json_text(MetricsLine{.step = 7, .epoch = 1, .phase = "train", .values = values}),
            R"({"step":7,"epoch":1,"phase":"train","loss":null,"norm":null})");
}

TEST(MetricsLog, TwoFiguresOfOneNameAreABug) {
  const std::vector<Metric> values{{"step", 0.25}};
  EXPECT_THROW(to_json_text(MetricsLine{.step = 7, .epoch = 1, .phase = "test", .values = values}), Error);
}

TEST(MetricsLog, EveryLineIsInTheFileAtOnce) {
  const TemporaryDirectory directory;
  MetricsLog log = MetricsLog::start(directory / "m.jsonl");
  for (int step = 1; step <= 3; ++step) {
    write_step(log, step);
    EXPECT_EQ(read_file(directory / "m.jsonl"), log_of_steps(step));
  }
}

TEST(MetricsLog, StartEmptiesTheFile) {
  const TemporaryDirectory directory;
  write_file(directory / "m.jsonl", "old\n");
  MetricsLog log = MetricsLog::start(directory / "m.jsonl");
  EXPECT_EQ(read_file(directory / "m.jsonl"), "");
}

TEST(MetricsLog, ResumeReadsAsIfNeverStoppedWhereverItWasCut) {
  const TemporaryDirectory directory;
  const auto file = directory / "m.jsonl";
  const std::string until_5 = log_of_steps(5);
  const std::string until_9 = log_of_steps(9);
  // The checkpoint is of step 5, the kill came at any byte after it.
  for (std::size_t size = until_5.size(); size <= until_9.size(); ++size) {
    write_file(file, until_9.substr(0, size));
    MetricsLog log = MetricsLog::resume(file, 5);
    ASSERT_EQ(read_file(file), until_5) << "cut at " << size;
    for (int step = 6; step <= 9; ++step) write_step(log, step);
    ASSERT_EQ(read_file(file), until_9) << "cut at " << size;
  }
}

TEST(MetricsLog, ResumeKeepsAWholeLineThatLostOnlyItsNewline) {
  const TemporaryDirectory directory;
  const auto file = directory / "m.jsonl";
  const std::string until_5 = log_of_steps(5);
  write_file(file, until_5.substr(0, until_5.size() - 1));
  MetricsLog::resume(file, 5);
  EXPECT_EQ(read_file(file), until_5);
}

TEST(MetricsLog, ResumeDropsDamagedLinesAndKeepsTheRest) {
  const TemporaryDirectory directory;
  const auto file = directory / "m.jsonl";
  const std::string damaged = std::string(3, '\0') + "\n[1]\n{\"epoch\":1}\n{\"step\":\"1\"}\n\n";
  write_file(file, log_of_steps(2) + damaged);
  MetricsLog::resume(file, 2);
  EXPECT_EQ(read_file(file), log_of_steps(2));
}

TEST(MetricsLog, ResumeWithoutAFileStartsOne) {
  const TemporaryDirectory directory;
  MetricsLog log = MetricsLog::resume(directory / "m.jsonl", 5);
  write_step(log, 6);
  EXPECT_FALSE(read_file(directory / "m.jsonl").empty());
}

TEST(MetricsLog, MissingDirectoryIsSaid) {
  EXPECT_THROW(MetricsLog::start("/nowhere/m.jsonl"), Error);
}

}  // namespace
}  // namespace trifold
