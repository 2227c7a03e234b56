#include "insight/metrics/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trifold {

Histogram make_histogram(std::span<const float> numbers, double scale) {
  Histogram result;
  float least = std::numeric_limits<float>::infinity();
  float most = -least;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    least = std::min(least, number);
    most = std::max(most, number);
    result.count += 1;
    result.sum += number;
    result.sum_of_squares += static_cast<double>(number) * number;
  }
  if (result.count == 0) return result;
  result.least = least;
  result.most = most;
  const int buckets = most > least ? kHistogramBuckets : 1;
  const double width = (result.most - result.least) / buckets;
  result.counts.assign(static_cast<std::size_t>(buckets), 0);
  for (int i = 1; i < buckets; ++i) result.limits.push_back(result.least + i * width);
  result.limits.push_back(result.most);
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const int bucket = width > 0 ? static_cast<int>((number - result.least) / width) : 0;
    result.counts[static_cast<std::size_t>(std::min(bucket, buckets - 1))] += 1;  // the largest is in the last
  }
  for (double* value : {&result.least, &result.most, &result.sum}) *value *= scale;
  for (double& limit : result.limits) limit *= scale;
  result.sum_of_squares *= scale * scale;
  return result;
}

}  // namespace trifold
