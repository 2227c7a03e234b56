// Cuts a network's graph into pipeline stages: each gets the nodes of its layers, and a message for every value that
// another stage made. Any edge may cross any number of stages (skip connections, concatenations): it goes from its
// maker to its reader directly.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kernels/device_groups.h"
#include "layers/graph.h"

namespace trifold {

// Which part of the network each layer belongs to; parts are runs of layers. With several chunks a stage there are more
// parts than stages: part p lies on stage p mod stages.
struct StageCut {
  std::vector<int> part_of_layer;
  int parts = 1;
  int stages = 1;
  int gradient_copies = 1;  // of a gradient, or of a view of the inputs, that may wait for a stage to receive them
};

// The graph of one part: with send and receive nodes where edges were cut.
Graph graph_of_part(const Graph& whole, const StageCut& cut, int part);

// The routes of a part's messages, each once.
std::vector<Route> routes_of(const Graph& part);

// Whether a part may have the layers from `begin` to before `end`.
using PartFits = std::function<bool(int part, int begin, int end)>;

// What a part takes for them, in any unit of time.
using PartCost = std::function<double(int part, int begin, int end)>;

// How many layers each part gets so that the slowest takes as little time as can be: exact, by dynamic programming.
// Nothing where no cut fits. Throws an input error where there are more parts than layers.
std::vector<int> balance_parts(int layers, int parts, const PartCost& cost, const PartFits& fits = nullptr);
// The same with one cost a layer, whichever part has it.
std::vector<int> balance_parts(std::span<const double> costs, int parts, const PartFits& fits = nullptr);

// What layers cost to train, relative to each other: arithmetic at one rate, memory at another.
struct LayerCosts {
  std::vector<double> all;
  std::vector<double> forward;  // of that
};
LayerCosts layer_costs(const Graph& graph);

StageCut make_cut(std::span<const int> layers_of_part, int stages);

}  // namespace trifold
