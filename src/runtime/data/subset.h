// Some samples of a set, as a set: what a loader of one shard reads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace trifold {

class SubsetDataset final : public Dataset {
 public:
  // `samples` are indices in `whole`.
  SubsetDataset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> samples);

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  ImageShape image_shape() const override { return whole_->image_shape(); }
  PixelType pixel_type() const override { return whole_->pixel_type(); }
  int classes() const override { return whole_->classes(); }
  std::string class_name(int label) const override { return whole_->class_name(label); }
  int label(std::int64_t index) const override { return whole_->label(at(index)); }
  int target_width() const override { return whole_->target_width(); }
  bool has_times() const override { return whole_->has_times(); }
  double time(std::int64_t index) const override { return whole_->time(at(index)); }
  std::string origin(std::int64_t index) const override { return whole_->origin(at(index)); }

  void read_pixels(std::int64_t index, RandomSequence* random, std::span<std::uint8_t> out) const override;
  void read_pixels(std::int64_t index, RandomSequence* random, std::span<float> out) const override;
  void read_targets(std::int64_t index, std::span<float> out) const override;

 private:
  std::int64_t at(std::int64_t index) const;

  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> samples_;
};

}  // namespace trifold
