// Joins neighbouring ops into fewer passes over memory. Every rule rewrites forward and backward together and leaves
// the result the same up to rounding; a test runs networks with and without.
#pragma once

#include "layers/graph.h"

namespace trifold {

Graph fuse(Graph graph);

}  // namespace trifold
