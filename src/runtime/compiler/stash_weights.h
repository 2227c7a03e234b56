// PipeDream's weight stashing in the graph: a micro-batch copies the stage's parameters when its forward work begins,
// and its forward and backward work read the copy, which lies in its slot. Updates between the two leave it alone.
#pragma once

#include "runtime/compiler/flat_layout.h"
#include "runtime/compiler/layout_pass.h"

namespace trifold {

void stash_weights(LaidOutGraph& laid_out, const FlatLayout& layout, GivenPlaces& given);

}  // namespace trifold
