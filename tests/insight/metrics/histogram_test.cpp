// Buckets, limits and sums of a few numbers worked out by hand.
#include "insight/metrics/histogram.h"

#include <limits>
#include <numeric>

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(Histogram, HasEqualBucketsBetweenTheSmallestAndTheLargest) {
  const std::vector<float> numbers = {0, 0.5f, 1, 15, 29.5f, 30};
  const Histogram histogram = make_histogram(numbers);
  EXPECT_EQ(histogram.least, 0);
  EXPECT_EQ(histogram.most, 30);
  EXPECT_EQ(histogram.count, 6);
  EXPECT_EQ(histogram.sum, 76);
  EXPECT_EQ(histogram.sum_of_squares, 0.25 + 1 + 225 + 29.5 * 29.5 + 900);
  ASSERT_EQ(histogram.counts.size(), 30u);
  ASSERT_EQ(histogram.limits.size(), 30u);
  EXPECT_EQ(histogram.counts[0], 2);  // 0 and 0.5
  EXPECT_EQ(histogram.counts[1], 1);  // a limit is in the bucket above it
  EXPECT_EQ(histogram.counts[15], 1);
  EXPECT_EQ(histogram.counts[29], 2);  // and the last one in the last bucket
  EXPECT_EQ(histogram.limits[0], 1);
  EXPECT_EQ(histogram.limits[29], 30);
}

TEST(Histogram, LeavesOutWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> numbers = {1, infinity, 2, -infinity, std::numeric_limits<float>::quiet_NaN(), 3};
  const Histogram histogram = make_histogram(numbers);
  EXPECT_EQ(histogram.count, 3);
  EXPECT_EQ(histogram.least, 1);
  EXPECT_EQ(histogram.most, 3);
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0), 3);
}

TEST(Histogram, OfEqualNumbersIsOneBucketAndOfNoneIsEmpty) {
  const std::vector<float> numbers(7, -0.25f);
  const Histogram histogram = make_histogram(numbers);
  EXPECT_EQ(histogram.counts, std::vector<double>{7});
  EXPECT_EQ(histogram.limits, std::vector<double>{-0.25});
  EXPECT_EQ(make_histogram({}).count, 0);
  EXPECT_TRUE(make_histogram({}).counts.empty());
}

TEST(Histogram, IsThatOfTheScaledNumbers) {
  const std::vector<float> numbers = {-2, 1, 3, 6};
  const std::vector<float> halves = {-1, 0.5f, 1.5f, 3};
  const Histogram scaled = make_histogram(numbers, 0.5);
  const Histogram expected = make_histogram(halves);
  EXPECT_EQ(scaled.least, expected.least);
  EXPECT_EQ(scaled.most, expected.most);
  EXPECT_EQ(scaled.sum, expected.sum);
  EXPECT_EQ(scaled.sum_of_squares, expected.sum_of_squares);
  EXPECT_EQ(scaled.counts, expected.counts);
  for (std::size_t i = 0; i < scaled.limits.size(); ++i) EXPECT_NEAR(scaled.limits[i], expected.limits[i], 1e-12);
}

TEST(Histogram, SpansAllFloats) {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> numbers = {-largest, 0, largest};
  const Histogram histogram = make_histogram(numbers);
  EXPECT_EQ(histogram.counts[0], 1);
  EXPECT_EQ(histogram.counts[15], 1);
  EXPECT_EQ(histogram.counts[29], 1);
}

}  // namespace
}  // namespace trifold
