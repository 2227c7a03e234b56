// Decides the memory layout of every value: layouts flow from layer to layer as the backend wants them, and a reorder
// node is added only where two layers disagree.
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "layers/graph.h"

namespace trifold {

struct LaidOutGraph {
  Graph graph;
  std::vector<TensorDesc> descs;  // one a value
};

LaidOutGraph choose_layouts(Graph graph, const Backend& backend);

}  // namespace trifold
