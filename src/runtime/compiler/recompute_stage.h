// A stage that recomputes keeps of a micro-batch, from its forward to its backward work, no more than what it received,
// and repeats its forward work just before its backward work. Results stay the same to the bit.
#pragma once

#include "runtime/compiler/layout_pass.h"

namespace trifold {

// Kept are the values of fewest bytes from which the rest of what backward work reads can be made again: the stage's
// inputs, or what is smaller and comes after them. What the stage sends lies in memory until it has arrived and is kept
// for nothing. Nodes that must not run twice are not repeated: receives, the loss, and those of batch norm's
// statistics, which move the running averages; exchanges among tensor ranks are. The repeated nodes come before all
// backward nodes, so that a stage works on them while it waits for its gradients. After layouts, so that both times the
// same kernels run; before backward work is split.
void recompute_stage(LaidOutGraph& laid_out);

}  // namespace trifold
