// An event file that TensorBoard reads while the run goes on: events.out.tfevents.<time>.<host>. Every process start
// has a file of its own; a resumed one tells TensorBoard to drop what the earlier files hold beyond its step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/file_descriptor.h"
#include "insight/metrics/tensorboard_event.h"
#include "runtime/train/metric.h"

namespace trifold {

class TensorboardWriter {
 public:
  // `resumed_at` is the step of the checkpoint that the run goes on from.
  explicit TensorboardWriter(const std::filesystem::path& directory,
                             std::optional<std::int64_t> resumed_at = std::nullopt);

  // Metric names are TensorBoard's tags: "train/loss". With the system before it returns.
  void write(std::int64_t step, std::span<const Metric> metrics);
  void write(std::int64_t step, std::span<const NamedHistogram> histograms);
  void write(std::int64_t step, std::span<const NamedImage> images);

  const std::filesystem::path& file() const { return file_; }

 private:
  void write_record(const std::string& payload);

  std::filesystem::path file_;
  FileDescriptor descriptor_;
};

}  // namespace trifold
