// metrics.jsonl: one JSON object a line, with the system before write() returns. A resumed log reads as if the run had
// never stopped, provided that the lines of a step are written before its checkpoint is saved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/file_descriptor.h"
#include "runtime/train/metric.h"

namespace trifold {

struct MetricsLine {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string_view phase = {};          // "train", "test"
  std::span<const Metric> values = {};  // follow in this order; NaN and infinities become null
};

std::string to_json_text(const MetricsLine& line);

class MetricsLog {
 public:
  // An empty log, whatever the file held.
  static MetricsLog start(const std::filesystem::path& file);

  // Goes on after `step`: lines of later steps and a torn last line are dropped.
  static MetricsLog resume(const std::filesystem::path& file, std::int64_t step);

  void write(const MetricsLine& line);

 private:
  MetricsLog(std::filesystem::path file, int flags);

  std::filesystem::path file_;
  FileDescriptor descriptor_;
};

}  // namespace trifold
