#include "runtime/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "runtime/data/memory_images.h"
#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;

std::unique_ptr<Dataset> labelled(std::vector<int> labels, int classes) {
  MemoryImagesContent content{
      .shape = {1, 1, 1}, .classes = classes, .pixels = {}, .labels = {}, .origins = {{0, "test"}}};
  content.pixels.resize(labels.size());
  content.labels = std::move(labels);
  return std::make_unique<MemoryImages>(std::move(content));
}

std::vector<std::int64_t> epoch_of(Sampler sampler, std::int64_t epoch) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(sampler.size()));
  sampler.fill_epoch(epoch, indices);
  return indices;
}

std::vector<std::int64_t> counting(std::size_t size) {
  std::vector<std::int64_t> indices(size);
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

TEST(Sampler, SequentialCounts) {
  const auto set = labelled(std::vector<int>(10), 1);
  EXPECT_EQ(epoch_of({*set, SampleOrder::sequential, 1}, 3), counting(10));
}

TEST(Sampler, AnEpochIsAPermutationOfItsOwn) {
  const auto set = labelled(std::vector<int>(1000), 1);
  const Sampler sampler(*set, SampleOrder::shuffled, 1);
  const auto first = epoch_of(sampler, 0);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, counting(1000));
  EXPECT_NE(first, counting(1000));
  EXPECT_NE(first, epoch_of(sampler, 1));
  EXPECT_EQ(first, epoch_of(sampler, 0));
  EXPECT_NE(first, epoch_of({*set, SampleOrder::shuffled, 2}, 0));
}

TEST(Sampler, EveryPermutationIsAsLikely) {
  const auto set = labelled(std::vector<int>(4), 1);
  Sampler sampler(*set, SampleOrder::shuffled, 5);
  std::vector<int> seen(256);
  std::vector<std::int64_t> indices(4);
  for (int epoch = 0; epoch < 24000; ++epoch) {
    sampler.fill_epoch(epoch, indices);
    ++seen[static_cast<std::size_t>(indices[0] * 64 + indices[1] * 16 + indices[2] * 4 + indices[3])];
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 256 - 24);
  for (const int count : seen) {
    if (count == 0) continue;
    EXPECT_NEAR(count, 1000, 150);
  }
}

TEST(Sampler, BalancedDrawsEveryClassEquallyOften) {
  std::vector<int> labels(90, 0);
  labels.insert(labels.end(), 8, 1);
  labels.insert(labels.end(), 4, 3);  // class 2 has no samples
  const auto set = labelled(labels, 4);
  const Sampler sampler(*set, SampleOrder::balanced, 1);
  const auto indices = epoch_of(sampler, 0);
  ASSERT_EQ(indices.size(), 102u);
  std::vector<int> by_class(4);
  std::vector<int> by_sample(102);
  for (const std::int64_t index : indices) {
    ++by_class[static_cast<std::size_t>(set->label(index))];
    ++by_sample[static_cast<std::size_t>(index)];
  }
  EXPECT_EQ(by_class, (std::vector<int>{34, 34, 0, 34}));
  for (std::size_t i = 0; i < 90; ++i) EXPECT_LE(by_sample[i], 1);
  for (std::size_t i = 90; i < 98; ++i) EXPECT_NEAR(by_sample[i], 34.0 / 8, 1);
  for (std::size_t i = 98; i < 102; ++i) EXPECT_NEAR(by_sample[i], 34.0 / 4, 1);
  EXPECT_EQ(indices, epoch_of(sampler, 0));
  EXPECT_NE(indices, epoch_of(sampler, 1));
}

TEST(Sampler, CountsAndWeightsOfClasses) {
  const auto set = labelled({0, 0, 0, 1}, 3);
  const auto counts = class_counts(*set, 3);
  EXPECT_EQ(counts, (std::vector<std::int64_t>{3, 1, 0}));
  const auto weights = balanced_class_weights(counts);
  EXPECT_FLOAT_EQ(weights[0], 4.0f / (2 * 3));
  EXPECT_FLOAT_EQ(weights[1], 4.0f / 2);
  EXPECT_EQ(weights[2], 0.0f);
}

TEST(Sampler, RefusesAnEmptySet) {
  const auto set = labelled({}, 1);
  EXPECT_SAYS(input_error([&] { Sampler(*set, SampleOrder::shuffled, 1); }), "empty");
}

}  // namespace
}  // namespace trifold
