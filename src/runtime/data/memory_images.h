// A Dataset whose byte images and labels are all in memory: what the IDX, CIFAR and synthetic sources open.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace trifold {

struct ImageOrigin {
  std::int64_t first_sample = 0;  // this and the following samples, up to the next origin,
  std::string name;               // came from here
};

struct MemoryImagesContent {
  ImageShape shape{};
  int classes = 0;
  std::vector<std::uint8_t> pixels{};  // [size, C, H, W]
  std::vector<int> labels{};           // [size]
  std::vector<ImageOrigin> origins{};  // by rising first_sample; at least one
};

class MemoryImages final : public Dataset {
 public:
  explicit MemoryImages(MemoryImagesContent content);

  std::int64_t size() const override { return static_cast<std::int64_t>(content_.labels.size()); }
  ImageShape image_shape() const override { return content_.shape; }
  int classes() const override { return content_.classes; }
  int label(std::int64_t index) const override { return content_.labels[static_cast<std::size_t>(index)]; }
  std::string origin(std::int64_t index) const override;

  using Dataset::read_pixels;
  void read_pixels(std::int64_t index, RandomSequence* random, std::span<std::uint8_t> out) const override;

 private:
  MemoryImagesContent content_;
};

}  // namespace trifold
