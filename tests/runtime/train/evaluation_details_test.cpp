// Counts and losses of a few outputs worked out by hand; the worst samples against a sort of all.
#include "runtime/train/evaluation_details.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

using Output = std::array<float, 2>;

// Of two classes: the label's probability is 1 / (1 + exp(margin)).
Output wrong_by(float margin) {
  return {0, margin};
}

TEST(EvaluationDetails, CountsLabelsInRowsAndPredictionsInColumns) {
  EvaluationDetails details(3);
  const std::array<float, 3> second = {0, 2, 1};
  details.add(0, 0, second);
  details.add(1, 0, second);
  details.add(2, 1, second);
  details.add(3, 2, std::array<float, 3>{5, 5, 5});  // of equals the first
  EXPECT_EQ(details.confusion(), (std::vector<std::int64_t>{0, 2, 0, 0, 1, 0, 1, 0, 0}));
}

TEST(EvaluationDetails, ProbabilityAndLossAreThoseOfTheSoftmax) {
  EvaluationDetails details(2);
  details.add(7, 0, Output{1000, 1000 + std::log(3.0f)});  // logits too large for a plain exp()
  ASSERT_EQ(details.worst().size(), 1u);
  const SampleResult& sample = details.worst()[0];
  EXPECT_EQ(sample.index, 7);
  EXPECT_EQ(sample.predicted, 1);
  EXPECT_NEAR(sample.probability, 0.75, 1e-4);
  EXPECT_NEAR(sample.loss, std::log(4.0), 1e-4);

  EvaluationDetails of_log_probabilities(2);
  of_log_probabilities.add(7, 0, Output{std::log(0.25f), std::log(0.75f)});
  EXPECT_NEAR(of_log_probabilities.worst()[0].probability, 0.75, 1e-6);
  EXPECT_NEAR(of_log_probabilities.worst()[0].loss, std::log(4.0), 1e-6);
}

TEST(EvaluationDetails, KeepsTheWorstWhateverTheOrderAndTheParts) {
  constexpr int kSamples = 97;
  const auto margin = [](int i) { return static_cast<float>(i * 37 % 50); };  // each twice, so indices decide
  EvaluationDetails whole(2);
  std::array<EvaluationDetails, 3> parts = {EvaluationDetails(2), EvaluationDetails(2), EvaluationDetails(2)};
  for (int i = 0; i < kSamples; ++i) whole.add(i, 0, wrong_by(margin(i)));
  for (int i = kSamples - 1; i >= 0; --i) parts[static_cast<std::size_t>(i % 3)].add(i, 0, wrong_by(margin(i)));
  EvaluationDetails joined(2);
  for (const EvaluationDetails& part : parts) joined.join(part);

  std::vector<int> expected(kSamples);
  for (int i = 0; i < kSamples; ++i) expected[static_cast<std::size_t>(i)] = i;
  std::ranges::stable_sort(expected, [&](int a, int b) { return margin(a) > margin(b); });
  ASSERT_EQ(whole.worst().size(), 24u);
  ASSERT_EQ(joined.worst().size(), 24u);
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(whole.worst()[i].index, expected[i]);
    EXPECT_EQ(joined.worst()[i].index, expected[i]);
  }
  EXPECT_EQ(joined.confusion(), whole.confusion());
}

TEST(EvaluationDetails, AnOutputThatIsNoNumberIsTheWorst) {
  EvaluationDetails details(2);
  details.add(0, 0, wrong_by(80));
  details.add(1, 0, Output{std::numeric_limits<float>::quiet_NaN(), 0});
  EXPECT_EQ(details.worst()[0].index, 1);
  EXPECT_TRUE(std::isinf(details.worst()[0].loss));
}

TEST(EvaluationDetails, RefusesLabelsAndOutputsOfOtherClasses) {
  EvaluationDetails details(3);
  EXPECT_THROW(details.add(0, 0, Output{}), Error);
  EXPECT_THROW(details.add(0, 3, std::array<float, 3>{}), Error);
}

}  // namespace
}  // namespace trifold
