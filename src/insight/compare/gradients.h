// The gradients of a step, whatever rank made which part, and how far two plans' are apart.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/train/parallel_model.h"

namespace trifold {

using Gradients = std::map<std::string, std::vector<float>>;  // whole, by parameter: "conv1.weight"

// As the last update saw them.
Gradients gradients_of(const ParallelModel& model);

struct GradientDifference {
  double relative = 0;  // to the largest gradient of the layer
  std::string layer;    // where that is largest
};

// Of a layer, not of a parameter: a bias before batch norm has no gradient but rounding's.
GradientDifference largest_difference(const Gradients& gradients, const Gradients& reference);

}  // namespace trifold
