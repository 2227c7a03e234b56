// Makes a graph's weight gradients (W) a part of their own, which may run any time after the input gradients (B) of the
// same micro-batch, even after those of the next one.
#pragma once

#include "runtime/compiler/layout_pass.h"

namespace trifold {

// Afterwards the nodes of W come last, no node of B reads what one of them makes, and only they write the gradients of
// parameters.
void split_backward(LaidOutGraph& laid_out);

}  // namespace trifold
