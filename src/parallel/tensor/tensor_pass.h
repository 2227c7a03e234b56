// The tensor pass: divides a forward graph of whole layers among tensor ranks. It chooses a split for each layer, puts
// the layer's part that this rank computes in its place, converts values where a layer reads them otherwise than they
// lie, and marks which part of each parameter the rank has. Every conversion is an op that names its gradient's, so
// that autodiff, which comes after this pass, needs to know nothing about ranks.
#pragma once

#include <optional>
#include <vector>

#include "layers/forward_graph.h"

namespace trifold {

// Ranks that share each layer: this one has part `part` of it.
struct TensorPlan {
  int parts = 1;
  int part = 0;
  std::vector<std::optional<LayerSplit>> splits = {};  // of layers by index, where the plan names one; others: chosen
};

// The graph itself where there is one part.
ForwardGraph divide_among_tensor_ranks(ForwardGraph whole, const TensorPlan& plan);

}  // namespace trifold
