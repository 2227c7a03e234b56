// Means of class weights: a weighted loss is divided by them (StepContext::mean_class_weight).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/ops/loss.h"
#include "layers/graph.h"

namespace trifold {

// Null where the graph has no such loss: in a pipeline, one part has it.
const CrossEntropy* cross_entropy_of(const Graph& graph);

double sum_of_class_weights(std::span<const float> weights, std::span<const std::int32_t> labels);

// Of several runs of samples, added in the order in which they are given.
class MeanClassWeight {
 public:
  // [classes]; they must outlive this.
  explicit MeanClassWeight(std::span<const float> weights) : weights_(weights) {}

  void add(std::span<const std::int32_t> labels);
  // 1 where no sample has any weight: then there is nothing to divide.
  double value() const { return sum_ > 0 ? sum_ / static_cast<double>(samples_) : 1; }

 private:
  std::span<const float> weights_;
  double sum_ = 0;
  std::size_t samples_ = 0;
};

}  // namespace trifold
