// What each layer of a network is worth: shape, parameters, FLOPs, bytes. Numbers of the unfused graph: what the
// network is, not how it is run.
#pragma once

#include <string>
#include <vector>

#include "layers/graph.h"

namespace trifold {

struct LayerFigures {
  std::string id;
  std::string type;
  Shape shape;
  std::int64_t parameters = 0;
  double forward_flops = 0;
  double training_flops = 0;         // forward and both gradients
  std::size_t activation_bytes = 0;  // of its output
};

// One a layer, in the graph's order.
std::vector<LayerFigures> layer_figures(const Graph& graph);

}  // namespace trifold
