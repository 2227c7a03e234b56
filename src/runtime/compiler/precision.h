// Decides the element type of every value: 16 bits where precision allows it, f32 for losses, statistics, sums and the
// parameters themselves. Casts go where two types meet; weights are cast once a step for the products that read them.
#pragma once

#include <optional>

#include "kernels/ops/optimizer.h"
#include "layers/graph.h"

namespace trifold {

struct Precision {
  DType type = DType::f32;             // of layers that name none of their own
  std::optional<LossScaling> scaling;  // training with f16
};

// After fusion, before layouts. With scaling, graph.loss_scale is the state that the update moves.
Graph assign_precision(Graph graph, const Precision& precision);

}  // namespace trifold
