// Decides the memory layout of every value: layouts flow from layer to layer as the backend wants them, and a reorder
// node is added only where two layers disagree.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "layers/graph.h"

namespace trifold {

// By parameter name: programs that share parameters in memory must agree on them.
using ParameterLayouts = std::map<std::string, Layout>;

struct LaidOutGraph {
  Graph graph;
  std::vector<TensorDesc> descs;  // one a value
};

// `given`: layouts of parameters that another program has chosen already.
LaidOutGraph choose_layouts(Graph graph, const Backend& backend, const ParameterLayouts& given = {});

}  // namespace trifold
