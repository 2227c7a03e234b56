#include "runtime/data/synthetic.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;

std::vector<std::uint8_t> pixels_of(const Dataset& set, std::int64_t index) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(set.image_shape().elements()));
  set.read_pixels(index, nullptr, std::span(pixels));
  return pixels;
}

TEST(Synthetic, ASampleDependsOnlyOnSeedSplitAndIndex) {
  const ImageShape shape{3, 24, 32};
  const int threads = thread_count();
  set_thread_count(1);
  const auto few = open_synthetic(shape, 10, 7, Split::train, {.train_samples = 20, .test_samples = 20});
  set_thread_count(2);
  const auto many = open_synthetic(shape, 10, 7, Split::train, {.train_samples = 64, .test_samples = 20});
  set_thread_count(threads);
  for (std::int64_t i = 0; i < few->size(); ++i) EXPECT_EQ(pixels_of(*few, i), pixels_of(*many, i)) << i;
  const auto test = open_synthetic(shape, 10, 7, Split::test, {.train_samples = 20, .test_samples = 20});
  const auto other = open_synthetic(shape, 10, 8, Split::train, {.train_samples = 20, .test_samples = 20});
  EXPECT_NE(pixels_of(*few, 3), pixels_of(*test, 3));
  EXPECT_NE(pixels_of(*few, 3), pixels_of(*other, 3));
  EXPECT_NE(pixels_of(*few, 3), pixels_of(*few, 13));  // the same class
}

TEST(Synthetic, HasTheShapeAndClassesAskedFor) {
  const auto set = open_synthetic({4, 8, 40}, 20, 1, Split::test, {.train_samples = 5, .test_samples = 43});
  EXPECT_EQ(set->size(), 43);
  EXPECT_EQ(set->classes(), 20);
  EXPECT_EQ(set->image_shape(), (ImageShape{4, 8, 40}));
  EXPECT_EQ(set->label(41), 1);
  EXPECT_SAYS(input_error([] { open_synthetic({1, 28, 28}, 21, 1, Split::test, {}); }), "2 to 20 classes, not 21");
  EXPECT_SAYS(input_error([] { open_synthetic({1, 7, 28}, 10, 1, Split::test, {}); }), "1x7x28");
  EXPECT_SAYS(input_error([] {
                open_synthetic({1, 28, 28}, 10, 1, Split::test, {.test_samples = 0});
              }),
              "0 test samples");
}

// Softmax regression on the pixels, trained well past where it stops improving on the test split.
double linear_accuracy(const Dataset& train, const Dataset& test) {
  const auto features = static_cast<std::size_t>(train.image_shape().elements());
  const auto classes = static_cast<std::size_t>(train.classes());
  std::vector<float> weights((features + 1) * classes);
  std::vector<float> scores(classes);
  const auto score = [&](const std::vector<std::uint8_t>& pixels) {
    for (std::size_t c = 0; c < classes; ++c) {
      const float* row = weights.data() + c * (features + 1);
      float sum = row[features];
      for (std::size_t i = 0; i < features; ++i) sum += row[i] * (static_cast<float>(pixels[i]) / 255 - 0.5f);
      scores[c] = sum;
    }
  };
  for (int epoch = 0; epoch < 6; ++epoch) {
    for (std::int64_t n = 0; n < train.size(); ++n) {
      const auto pixels = pixels_of(train, n);
      score(pixels);
      const float top = *std::max_element(scores.begin(), scores.end());
      float total = 0;
      for (float& s : scores) total += s = std::exp(s - top);
      for (std::size_t c = 0; c < classes; ++c) {
        const float step = 0.003f * (scores[c] / total - (static_cast<int>(c) == train.label(n) ? 1.0f : 0.0f));
        float* row = weights.data() + c * (features + 1);
        for (std::size_t i = 0; i < features; ++i) row[i] -= step * (static_cast<float>(pixels[i]) / 255 - 0.5f);
        row[features] -= step;
      }
    }
  }
  int right = 0;
  for (std::int64_t n = 0; n < test.size(); ++n) {
    score(pixels_of(test, n));
    right += std::max_element(scores.begin(), scores.end()) - scores.begin() == test.label(n) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST(Synthetic, ALinearModelDoesNotLearnIt) {
  const SyntheticOptions options{.train_samples = 2000, .test_samples = 500};
  const auto train = open_synthetic({1, 28, 28}, 10, 1, Split::train, options);
  const auto test = open_synthetic({1, 28, 28}, 10, 1, Split::test, options);
  const double accuracy = linear_accuracy(*train, *test);
  RecordProperty("linear_accuracy_percent", static_cast<int>(100 * accuracy));
  EXPECT_LT(accuracy, 0.6);
}

}  // namespace
}  // namespace trifold
