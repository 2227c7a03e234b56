// Trades a little work for memory: an activation that one cheap pass makes again from values that backward keeps anyway
// (a batch norm's or an activation function's output) is not kept itself. Results stay the same to the bit.
#pragma once

#include "layers/graph.h"

namespace trifold {

enum class Recompute {
  never,
  cheap,   // where the ops that read it work hard enough to hide the pass
  always,  // wherever it is possible
};
const char* name_of(Recompute recompute);

// After fusion, before layouts.
Graph recompute_activations(Graph graph, Recompute which);

}  // namespace trifold
