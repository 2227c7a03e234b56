#include "runtime/cluster/node_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace trifold {
namespace {

// The log of the sum of exponentials: what makes logits log-probabilities.
double log_sum(std::span<const float> outputs) {
  const double largest = *std::ranges::max_element(outputs);
  double sum = 0;
  for (const float output : outputs) sum += std::exp(static_cast<double>(output) - largest);
  return std::log(sum) + largest;
}

// What cannot be told is not close.
double or_infinite(double value) {
  return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
}

}  // namespace

double relative_distance(const std::vector<ServedTensor>& tensors, const std::vector<std::vector<float>>& node,
                         const std::vector<std::vector<float>>& common) {
  TRIFOLD_CHECK(tensors.size() == node.size() && tensors.size() == common.size(), "{} tensors, {} and {}",
                tensors.size(), node.size(), common.size());
  double apart = 0;
  double whole = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].trained || common[t].empty()) continue;
    TRIFOLD_CHECK(node[t].size() == common[t].size(), "{} numbers, not {}", node[t].size(), common[t].size());
    for (std::size_t i = 0; i < node[t].size(); ++i) {
      const double difference = static_cast<double>(node[t][i]) - common[t][i];
      apart += difference * difference;
      whole += static_cast<double>(common[t][i]) * common[t][i];
    }
  }
  if (apart == 0) return 0;
  return or_infinite(std::sqrt(apart / whole));
}

double mean_kl(std::span<const float> node, std::span<const float> common, std::int64_t classes) {
  const auto width = static_cast<std::size_t>(classes);
  TRIFOLD_CHECK(node.size() == common.size() && !node.empty() && node.size() % width == 0, "outputs of {} and {}",
                node.size(), common.size());
  double sum = 0;
  for (std::size_t at = 0; at < node.size(); at += width) {
    const std::span<const float> ours = node.subspan(at, width);
    const std::span<const float> theirs = common.subspan(at, width);
    const double our_sum = log_sum(ours);
    const double their_sum = log_sum(theirs);
    for (std::size_t k = 0; k < width; ++k) {
      const double ours_here = ours[k] - our_sum;
      const double theirs_here = theirs[k] - their_sum;
      if (ours_here != -std::numeric_limits<double>::infinity())  // 0 log 0 is 0
        sum += std::exp(ours_here) * (ours_here - theirs_here);
    }
  }
  return std::max(0.0, or_infinite(sum * static_cast<double>(classes) / static_cast<double>(node.size())));
}

}  // namespace trifold
