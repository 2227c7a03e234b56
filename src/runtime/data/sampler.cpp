#include "runtime/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace trifold {

namespace {

// Fisher-Yates.
void shuffle(std::span<std::int64_t> values, RandomSequence& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.below(static_cast<std::uint32_t>(i))]);
  }
}

}  // namespace

Sampler::Sampler(const Dataset& dataset, SampleOrder order, std::uint64_t seed)
    : order_(order), seed_(seed), size_(dataset.size()) {
  if (size_ < 1) fail_input("the data set is empty; check data.path");
  if (size_ > std::int64_t{0xffffffff}) fail_input("the data set has {} samples, beyond the limit of 2^32", size_);
  if (order != SampleOrder::balanced) return;
  if (dataset.target_width() > 0) {
    fail_input("{}: float targets have no classes to balance; use the shuffled order", dataset.origin(0));
  }
  const std::vector<std::int64_t> counts = class_counts(dataset, dataset.classes());
  std::vector<std::int64_t> next(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), std::int64_t{0});
  for (std::size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] > 0) class_begin_.push_back(next[label]);
  }
  class_begin_.push_back(size_);
  class_order_.resize(class_begin_.size() - 1);
  members_.resize(static_cast<std::size_t>(size_));
  drawn_.resize(static_cast<std::size_t>(*std::max_element(counts.begin(), counts.end())));
  for (std::int64_t index = 0; index < size_; ++index) {
    members_[static_cast<std::size_t>(next[static_cast<std::size_t>(dataset.label(index))]++)] = index;
  }
}

void Sampler::fill_epoch(std::int64_t epoch, std::span<std::int64_t> indices) {
  TRIFOLD_CHECK(static_cast<std::int64_t>(indices.size()) == size_, "{} positions for {} samples", indices.size(),
                size_);
  if (order_ == SampleOrder::balanced) {
    fill_balanced(epoch, indices);
    return;
  }
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  if (order_ == SampleOrder::sequential) return;
  RandomSequence random(seed_, Purpose::shuffle, static_cast<std::uint32_t>(epoch));
  shuffle(indices, random);
}

void Sampler::fill_balanced(std::int64_t epoch, std::span<std::int64_t> indices) {
  RandomSequence random(seed_, Purpose::sampler, static_cast<std::uint32_t>(epoch));
  const auto classes = static_cast<std::int64_t>(class_order_.size());
  // Where the classes do not divide the epoch, chance decides which are drawn once more.
  std::iota(class_order_.begin(), class_order_.end(), std::int64_t{0});
  shuffle(class_order_, random);
  std::size_t position = 0;
  for (std::int64_t rank = 0; rank < classes; ++rank) {
    const auto chosen = static_cast<std::size_t>(class_order_[static_cast<std::size_t>(rank)]);
    const auto begin = static_cast<std::size_t>(class_begin_[chosen]);
    const auto count = static_cast<std::size_t>(class_begin_[chosen + 1]) - begin;
    auto draws = static_cast<std::size_t>(size_ / classes + (rank < size_ % classes ? 1 : 0));
    // No sample comes a second time before all of its class have come once.
    while (draws > 0) {
      const std::span<std::int64_t> round(drawn_.data(), count);
      std::copy_n(members_.data() + begin, count, round.data());
      shuffle(round, random);
      const std::size_t taken = std::min(draws, count);
      std::copy_n(round.data(), taken, indices.data() + position);
      position += taken;
      draws -= taken;
    }
  }
  shuffle(indices, random);
}

std::vector<std::int64_t> class_counts(const Dataset& dataset, int classes) {
  check_labels(dataset, classes);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  if (dataset.target_width() > 0) return counts;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    ++counts[static_cast<std::size_t>(dataset.label(index))];
  }
  return counts;
}

std::vector<float> balanced_class_weights(std::span<const std::int64_t> counts) {
  const auto samples = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  const auto present = static_cast<double>(counts.size()) -
                       static_cast<double>(std::count(counts.begin(), counts.end(), std::int64_t{0}));
  std::vector<float> weights;
  weights.reserve(counts.size());
  for (const std::int64_t count : counts) {
    weights.push_back(count == 0 ? 0.0f : static_cast<float>(samples / (present * static_cast<double>(count))));
  }
  return weights;
}

}  // namespace trifold
