// How numbers are spread: counts in equal buckets between the smallest and the largest, as TensorBoard draws them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trifold {

struct Histogram {
  double least = 0;
  double most = 0;
  std::int64_t count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> limits;  // the upper one of each bucket; a number that is a limit belongs to the bucket above it
  std::vector<double> counts;  // of each bucket
};

constexpr int kHistogramBuckets = 30;

// Of the numbers times `scale`, which is above 0. Numbers that are not finite are left out. Equal numbers have one
// bucket, no numbers none.
Histogram make_histogram(std::span<const float> numbers, double scale = 1);

}  // namespace trifold
