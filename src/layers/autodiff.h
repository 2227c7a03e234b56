// Autodiff: appends the backward nodes to a forward graph. Each layer is asked for its own; a conversion names the op
// that takes its gradient back.
#pragma once

#include "layers/forward_graph.h"

namespace trifold {

Graph add_gradients(ForwardGraph forward);

}  // namespace trifold
