// How far the model of a node, a shard's worker, is from the servers': the two figures by which nodes may stop a run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "parallel/servers/slices/slice.h"

namespace trifold {

struct NodeDifference {
  double distance = 0;            // of all trained values, over the norm of the servers'
  std::optional<double> kl = {};  // of the outputs, where they are compared

  bool operator==(const NodeDifference&) const = default;
};

// By tensor. One whose common values are empty is the node's own, and left out.
double relative_distance(const std::vector<ServedTensor>& tensors, const std::vector<std::vector<float>>& node,
                         const std::vector<std::vector<float>>& common);

// KL divergence of the node's probabilities from the common ones, mean over samples. Outputs are [samples * classes],
// logits or log-probabilities.
double mean_kl(std::span<const float> node, std::span<const float> common, std::int64_t classes);

}  // namespace trifold
