#include "runtime/train/class_weights.h"

namespace trifold {

const CrossEntropy* cross_entropy_of(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (const auto* loss = dynamic_cast<const CrossEntropy*>(node.op.get())) return loss;
  return nullptr;
}

double sum_of_class_weights(std::span<const float> weights, std::span<const std::int32_t> labels) {
  double sum = 0;
  for (const std::int32_t label : labels) sum += weights[static_cast<std::size_t>(label)];
  return sum;
}

void MeanClassWeight::add(std::span<const std::int32_t> labels) {
  sum_ += sum_of_class_weights(weights_, labels);
  samples_ += labels.size();
}

}  // namespace trifold
