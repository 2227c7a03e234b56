#include "runtime/data/synthetic_rows.h"

#include <cmath>
#include <vector>

#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;

constexpr ImageShape kTwenty{20, 1, 1};

std::vector<float> row_of(const Dataset& set, std::int64_t index) {
  std::vector<float> row(static_cast<std::size_t>(set.image_shape().elements()));
  set.read_pixels(index, nullptr, std::span(row));
  return row;
}

TEST(SyntheticRows, ARowDependsOnlyOnSeedSplitAndIndex) {
  const auto few = open_synthetic_rows(kTwenty, 2, 7, Split::train, {.train_samples = 10});
  const auto many = open_synthetic_rows(kTwenty, 2, 7, Split::train, {.train_samples = 1000});
  EXPECT_EQ(many->size(), 1000);
  for (std::int64_t i = 0; i < few->size(); ++i) EXPECT_EQ(row_of(*few, i), row_of(*many, i));
  EXPECT_NE(row_of(*few, 0), row_of(*open_synthetic_rows(kTwenty, 2, 8, Split::train, {}), 0));
  EXPECT_NE(row_of(*few, 0), row_of(*open_synthetic_rows(kTwenty, 2, 7, Split::test, {}), 0));
}

// A perceptron's rule with a falling rate, on rows with a 1 behind them.
double linear_accuracy_of_rows(const Dataset& train, const Dataset& test) {
  std::vector<double> weights(21);
  const auto score = [&](const std::vector<float>& row) {
    double sum = weights.back();
    for (std::size_t i = 0; i < row.size(); ++i) sum += weights[i] * row[i];
    return sum;
  };
  for (int epoch = 1; epoch <= 30; ++epoch)
    for (std::int64_t n = 0; n < train.size(); ++n) {
      const std::vector<float> row = row_of(train, n);
      const double miss = train.label(n) - 1 / (1 + std::exp(-score(row)));
      for (std::size_t i = 0; i < row.size(); ++i) weights[i] += 0.1 / epoch * miss * row[i];
      weights.back() += 0.1 / epoch * miss;
    }
  int right = 0;
  for (std::int64_t n = 0; n < test.size(); ++n) right += (score(row_of(test, n)) > 0) == (test.label(n) == 1);
  return right / static_cast<double>(test.size());
}

TEST(SyntheticRows, ALinearModelLearnsThem) {
  const SyntheticRowsOptions options{.train_samples = 1000, .test_samples = 1000, .clusters = 1};
  const auto train = open_synthetic_rows(kTwenty, 2, 1, Split::train, options);
  const auto test = open_synthetic_rows(kTwenty, 2, 1, Split::test, options);
  EXPECT_GT(linear_accuracy_of_rows(*train, *test), 0.8);
  const SyntheticRowsOptions noise{.train_samples = 1000, .test_samples = 1000, .flipped = 1};
  EXPECT_LT(linear_accuracy_of_rows(*open_synthetic_rows(kTwenty, 2, 1, Split::train, noise),
                                    *open_synthetic_rows(kTwenty, 2, 1, Split::test, noise)),
            0.6);
}

TEST(SyntheticRows, RedundantFeaturesAreMixturesOfTheInformative) {
  const auto set =
      open_synthetic_rows({3, 1, 1}, 2, 1, Split::train, {.informative = 1, .redundant = 2, .clusters = 1});
  const std::vector<float> first = row_of(*set, 0);
  for (std::int64_t i = 1; i < 5; ++i) {
    const std::vector<float> row = row_of(*set, i);
    EXPECT_NEAR(row[1] / row[0], first[1] / first[0], 1e-5);
    EXPECT_NEAR(row[2] / row[0], first[2] / first[0], 1e-5);
  }
}

TEST(SyntheticRows, SaysWhatDoesNotFit) {
  const auto error = [](int classes, const SyntheticRowsOptions& options) {
    return input_error([&] { open_synthetic_rows({4, 1, 1}, classes, 1, Split::train, options); });
  };
  EXPECT_SAYS(error(2, {.informative = 3, .redundant = 2}), "do not fit into the 4");
  EXPECT_SAYS(error(3, {.informative = 2}), "a cube of 2 informative features has 4");
  EXPECT_SAYS(error(1, {}), "at least 2 classes");
  EXPECT_SAYS(error(2, {.train_samples = 0}), "0 train samples");
}

}  // namespace
}  // namespace trifold
