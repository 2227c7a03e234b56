#include "runtime/data/subset.h"

#include "core/error.h"

namespace trifold {

SubsetDataset::SubsetDataset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> samples)
    : whole_(std::move(whole)), samples_(std::move(samples)) {
  for (const std::int64_t sample : samples_)
    TRIFOLD_CHECK(sample >= 0 && sample < whole_->size(), "sample {} of {}", sample, whole_->size());
}

void SubsetDataset::read_pixels(std::int64_t index, RandomSequence* random, std::span<std::uint8_t> out) const {
  whole_->read_pixels(at(index), random, out);
}

void SubsetDataset::read_pixels(std::int64_t index, RandomSequence* random, std::span<float> out) const {
  whole_->read_pixels(at(index), random, out);
}

void SubsetDataset::read_targets(std::int64_t index, std::span<float> out) const {
  whole_->read_targets(at(index), out);
}

std::int64_t SubsetDataset::at(std::int64_t index) const {
  TRIFOLD_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
  return samples_[static_cast<std::size_t>(index)];
}

}  // namespace trifold
