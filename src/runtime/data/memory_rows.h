// A Dataset whose rows of floats, with their labels or targets, are all in memory: what sources of numbers open.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace trifold {

struct MemoryRowsContent {
  ImageShape shape{};
  int classes = 0;                    // 0 where there are targets
  std::vector<float> values{};        // [size, C, H, W]
  std::vector<int> labels{};          // [size], or empty where there are targets
  int target_width = 0;               // 0 where there are labels
  std::vector<float> targets{};       // [size, target_width]
  std::vector<double> times{};        // [size], or empty where none are known
  std::string name{};                 // of what the rows came from, for messages
  std::vector<std::int64_t> lines{};  // [size], where in it each row stands; or empty
};

class MemoryRows final : public Dataset {
 public:
  explicit MemoryRows(MemoryRowsContent content);

  std::int64_t size() const override {
    return static_cast<std::int64_t>(content_.values.size()) / content_.shape.elements();
  }
  ImageShape image_shape() const override { return content_.shape; }
  PixelType pixel_type() const override { return PixelType::f32; }
  int classes() const override { return content_.classes; }
  int label(std::int64_t index) const override {
    return content_.target_width > 0 ? 0 : content_.labels[static_cast<std::size_t>(index)];
  }
  int target_width() const override { return content_.target_width; }
  bool has_times() const override { return !content_.times.empty(); }
  double time(std::int64_t index) const override { return content_.times[static_cast<std::size_t>(index)]; }
  std::string origin(std::int64_t index) const override;

  using Dataset::read_pixels;
  void read_pixels(std::int64_t index, RandomSequence* random, std::span<float> out) const override;
  void read_targets(std::int64_t index, std::span<float> out) const override;

 private:
  void copy_row(const std::vector<float>& rows, std::int64_t width, std::int64_t index, std::span<float> out) const;

  MemoryRowsContent content_;
};

}  // namespace trifold
