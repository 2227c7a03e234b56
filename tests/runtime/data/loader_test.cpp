#include "runtime/data/loader.h"

#include <atomic>
#include <chrono>
#include <set>

#include "runtime/data/csv.h"
#include "runtime/data/memory_images.h"
#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;

constexpr ImageShape kShape{1, 4, 4};

// Image i is all i (mod 256), its label i mod 7; reading may be slow, fail at one sample, or draw.
class Numbered final : public Dataset {
 public:
  explicit Numbered(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  ImageShape image_shape() const override { return kShape; }
  int classes() const override { return 7; }
  int label(std::int64_t index) const override { return static_cast<int>(index % 7); }
  std::string origin(std::int64_t index) const override { return "numbered " + std::to_string(index); }
  using Dataset::read_pixels;
  void read_pixels(std::int64_t index, RandomSequence* random, std::span<std::uint8_t> out) const override {
    if (index == bad_index) fail_input("{}: damaged", origin(index));
    if (slow_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(slow_us * (1 + index % 3)));
    std::fill(out.begin(), out.end(), static_cast<std::uint8_t>(index));
    if (draws && random != nullptr)
      for (std::int64_t i = 0; i <= index % 5; ++i) out[0] = static_cast<std::uint8_t>(random->below(256));
  }

  std::int64_t bad_index = -1;
  int slow_us = 0;
  bool draws = false;  // as many numbers as the index says, for the first pixel

 private:
  std::int64_t size_;
};

Loader make_loader(const std::shared_ptr<const Dataset>& set, LoaderOptions options,
                   std::vector<Augmentation> list = {RandomCrop{1}, HorizontalFlip{}}) {
  const SampleOrder order = options.training ? SampleOrder::shuffled : SampleOrder::sequential;
  return {set, Sampler(*set, order, 11), Augmenter(kShape, PixelType::u8, {}, std::move(list)), options};
}

std::vector<Batch> take(Loader& loader, int count) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) {
    batches.push_back(loader.next());
    loader.release();
  }
  return batches;
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.images, b.images);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.first_sample, b.first_sample);
  EXPECT_EQ(a.count, b.count);
}

TEST(Loader, ATrainingEpochVisitsEverySampleOnce) {
  const auto set = std::make_shared<Numbered>(60);
  Loader loader = make_loader(set, {.batch = 12, .threads = 2}, {});
  ASSERT_EQ(loader.steps_per_epoch(), 5);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::multiset<int> seen;
    for (const Batch& batch : take(loader, 5)) {
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(batch.count, 12);
      for (std::size_t i = 0; i < 12; ++i) {
        const int index = static_cast<int>(std::lround(batch.images[i * 16] * 255));
        EXPECT_EQ(batch.labels[i], index % 7);
        seen.insert(index);
      }
    }
    EXPECT_EQ(seen.size(), 60u);
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 60u);
  }
}

TEST(Loader, ThreadsAndDepthDoNotChangeTheStream) {
  const auto set = std::make_shared<Numbered>(50);
  Loader reference = make_loader(set, {.batch = 8, .seed = 3, .threads = 1, .depth = 1});
  const std::vector<Batch> expected = take(reference, 20);
  const auto slow = std::make_shared<Numbered>(50);
  slow->slow_us = 20;
  for (const auto& [threads, depth] : {std::pair{1, 4}, std::pair{2, 1}, std::pair{2, 3}, std::pair{4, 5}}) {
    Loader loader = make_loader(slow, {.batch = 8, .seed = 3, .threads = threads, .depth = depth});
    const std::vector<Batch> found = take(loader, 20);
    for (std::size_t i = 0; i < found.size(); ++i) expect_equal(found[i], expected[i]);
  }
}

TEST(Loader, ResumesExactly) {
  const auto set = std::make_shared<Numbered>(50);
  Loader whole = make_loader(set, {.batch = 8, .seed = 3});
  const std::vector<Batch> expected = take(whole, 20);  // six steps an epoch
  for (const std::int64_t done : {0, 4, 6, 11}) {
    Loader resumed =
        make_loader(set, {.batch = 8, .seed = 3, .threads = 2, .start_epoch = done / 6, .start_step = done % 6});
    const std::vector<Batch> found = take(resumed, 5);
    for (std::size_t i = 0; i < 5; ++i) expect_equal(found[i], expected[static_cast<std::size_t>(done) + i]);
  }
  Loader after = make_loader(set, {.batch = 8, .seed = 3, .start_epoch = 0, .start_step = 6});
  expect_equal(after.next(), expected[6]);
}

// What a program makes of raw bytes is what the loader would have made of them, even where the source draws as it
// reads.
TEST(Loader, WithoutAnAugmenterBatchesAreRaw) {
  const auto set = std::make_shared<Numbered>(50);
  set->draws = true;
  const std::vector<Augmentation> list = {RandomCrop{1}, HorizontalFlip{}};
  Loader prepared = make_loader(set, {.batch = 8, .seed = 3}, list);
  Loader raw(set, Sampler(*set, SampleOrder::shuffled, 11), std::nullopt, {.batch = 8, .seed = 3, .threads = 2});
  const Augmenter augmenter(kShape, PixelType::u8, {}, list);
  std::vector<std::uint8_t> scratch(16);
  for (int step = 0; step < 13; ++step) {  // six steps an epoch
    const Batch expected = take(prepared, 1)[0];
    Batch found = take(raw, 1)[0];
    EXPECT_TRUE(found.images.empty());
    EXPECT_EQ(found.labels, expected.labels);
    EXPECT_EQ(found.first_sample, expected.first_sample);
    std::vector<float> images(found.raw.size());
    for (std::size_t i = 0; i < 8; ++i) {
      const std::span<std::uint8_t> pixels = std::span(found.raw).subspan(i * 16, 16);
      RandomSequence random = augment_sequence(3, found.first_sample + static_cast<std::int64_t>(i));
      augmenter.augment(pixels, scratch, random);
      augmenter.normalise(std::span<const std::uint8_t>(pixels), std::span(images).subspan(i * 16, 16));
    }
    EXPECT_EQ(images, expected.images) << "step " << step;
  }
}

TEST(Loader, ARawTailIsZeros) {
  const auto set = std::make_shared<Numbered>(5);
  Loader loader(set, Sampler(*set, SampleOrder::sequential, 1), std::nullopt,
                {.batch = 4, .training = false, .depth = 1});  // the tail comes where a whole batch was
  EXPECT_EQ(take(loader, 1)[0].raw[3 * 16], 3);
  const Batch tail = take(loader, 1)[0];
  EXPECT_EQ(tail.count, 1);
  EXPECT_EQ(tail.raw[0], 4);
  EXPECT_EQ(std::vector<std::uint8_t>(tail.raw.begin() + 16, tail.raw.end()), std::vector<std::uint8_t>(3 * 16));
}

TEST(Loader, NumbersAreNotDeliveredRaw) {
  const testing::TemporaryFolder folder;
  const std::shared_ptr<const Dataset> set = open_csv(folder.write("t.csv", "1,2,0\n3,4,1\n"), Split::train, {}, {});
  EXPECT_THROW(Loader(set, Sampler(*set, SampleOrder::sequential, 1), std::nullopt, {.batch = 2}), Error);
}

TEST(Loader, SlicesMakeTheGlobalBatch) {
  const auto set = std::make_shared<Numbered>(50);
  Loader whole = make_loader(set, {.batch = 8, .seed = 3});
  Loader left = make_loader(set, {.batch = 8, .slice = {0, 3}, .seed = 3});
  Loader right = make_loader(set, {.batch = 8, .slice = {3, 8}, .seed = 3});
  for (int step = 0; step < 10; ++step) {
    const Batch& all = whole.next();
    std::vector<float> joined = left.next().images;
    const Batch& rest = right.next();
    EXPECT_EQ(rest.first_sample, all.first_sample + 3);
    joined.insert(joined.end(), rest.images.begin(), rest.images.end());
    EXPECT_EQ(joined, all.images);
    whole.release();
    left.release();
    right.release();
  }
}

TEST(Loader, ASliceMayComeWithTheLabelsOfTheGlobalBatch) {
  const auto set = std::make_shared<Numbered>(50);
  Loader whole = make_loader(set, {.batch = 8, .seed = 3});
  Loader slice = make_loader(set, {.batch = 8, .slice = {3, 5}, .global_labels = true, .seed = 3});
  const auto all = take(whole, 10);
  const auto parts = take(slice, 10);
  for (std::size_t step = 0; step < all.size(); ++step) {
    EXPECT_EQ(parts[step].global_labels, all[step].labels);
    EXPECT_EQ(parts[step].labels.size(), 2u);
    EXPECT_TRUE(all[step].global_labels.empty());
  }
}

TEST(Loader, EvaluationReportsItsTail) {
  const auto set = std::make_shared<Numbered>(21);
  Loader loader = make_loader(set, {.batch = 8, .training = false, .depth = 1}, {HorizontalFlip{1.0f}});
  ASSERT_EQ(loader.steps_per_epoch(), 3);
  take(loader, 2);
  const Batch tail = take(loader, 1)[0];
  EXPECT_EQ(tail.count, 5);
  EXPECT_EQ(tail.first_sample, 16);
  EXPECT_EQ(tail.labels, (std::vector<std::int32_t>{2, 3, 4, 5, 6, 0, 0, 0}));
  EXPECT_NEAR(tail.images[4 * 16] * 255, 20, 1e-3);
  EXPECT_EQ(std::vector<float>(tail.images.begin() + 5 * 16, tail.images.end()), std::vector<float>(3 * 16));
  const Batch again = take(loader, 1)[0];  // the next evaluation, read ahead
  EXPECT_EQ(again.epoch, 1);
  EXPECT_EQ(again.labels[3], 3);
  Loader second_rank = make_loader(set, {.batch = 8, .slice = {6, 8}, .training = false});
  EXPECT_EQ(take(second_rank, 3)[2].count, 0);
}

TEST(Loader, LeavesOutTheIncompleteTrainingBatch) {
  Loader loader = make_loader(std::make_shared<Numbered>(21), {.batch = 8});
  EXPECT_EQ(loader.steps_per_epoch(), 2);
  const auto batches = take(loader, 3);
  EXPECT_EQ(batches[2].epoch, 1);
  EXPECT_EQ(batches[2].step, 0);
  EXPECT_EQ(batches[2].first_sample, 16);
}

TEST(Loader, CarriesTargetsAndFloatRows) {
  const testing::TemporaryFolder folder;
  const auto path = folder.write("t.csv", "1,2,10\n3,4,20\n5,6,30\n");
  const std::shared_ptr<const Dataset> set = open_csv(path, Split::train, {}, {.targets = 1});
  Loader loader(set, Sampler(*set, SampleOrder::sequential, 1),
                Augmenter(set->image_shape(), set->pixel_type(), {.mean = {1, 0}, .std = {1, 2}}, {}),
                {.batch = 2, .training = false});
  EXPECT_EQ(loader.next().images, (std::vector<float>{0, 1, 2, 2}));
  loader.release();
  EXPECT_EQ(loader.next().targets, (std::vector<float>{30, 0}));
}

TEST(Loader, AnErrorSurfacesAtItsBatch) {
  const auto set = std::make_shared<Numbered>(40);
  set->bad_index = 19;
  Loader loader = make_loader(set, {.batch = 8, .training = false, .threads = 2, .depth = 4});
  take(loader, 2);
  EXPECT_SAYS(input_error([&] { loader.next(); }), "numbered 19: damaged");
  EXPECT_SAYS(input_error([&] { loader.next(); }), "numbered 19: damaged");
}

TEST(Loader, StopsAtAnyTime) {
  const auto set = std::make_shared<Numbered>(64);
  set->slow_us = 10;
  for (int round = 0; round < 60; ++round) {
    Loader loader = make_loader(set, {.batch = 4, .threads = 1 + round % 3, .depth = 1 + round % 4});
    take(loader, round % 7);
    if (round % 2 == 0) loader.next();  // still held
  }
}

TEST(Loader, KeepsItsBuffers) {
  Loader loader = make_loader(std::make_shared<Numbered>(64), {.batch = 4, .threads = 2, .depth = 3});
  std::set<const float*> buffers;
  for (int i = 0; i < 50; ++i) {
    buffers.insert(loader.next().images.data());
    loader.release();
  }
  EXPECT_EQ(buffers.size(), 3u);
}

TEST(Loader, CountsTheTimeItWaited) {
  const auto set = std::make_shared<Numbered>(8);
  set->slow_us = 2000;
  Loader loader = make_loader(set, {.batch = 8, .depth = 1});
  take(loader, 3);
  EXPECT_GE(loader.waited_ms(), 2 * 8 * 2.0);
}

TEST(Loader, WithoutImagesReadsLabelsOnly) {
  const auto set = std::make_shared<Numbered>(16);
  set->bad_index = 3;  // would fail if read
  Loader loader = make_loader(set, {.batch = 8, .training = false, .read_images = false});
  EXPECT_EQ(loader.next().labels, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 0}));
}

TEST(Loader, RefusesWhatCannotWork) {
  const auto set = std::make_shared<Numbered>(7);
  EXPECT_SAYS(input_error([&] { make_loader(set, {.batch = 8}); }), "7 samples, fewer than a batch of 8");
  EXPECT_SAYS(input_error([&] { make_loader(set, {.batch = 0}); }), "train.batch is 0");
  EXPECT_SAYS(input_error([&] { make_loader(set, {.batch = 7, .start_step = 2}); }), "step 2");
}

}  // namespace
}  // namespace trifold
