// ZeRO's stages 2 and 3 in the graph. A bucket's gradients are made side by side in the arena and leave it as this
// replica's part of their sum, as soon as the last of them is there. A bucket's parameters are gathered into the arena
// before the first node of the forward work that reads one of them, and again for the backward work.
#pragma once

#include "runtime/compiler/flat_layout.h"
#include "runtime/compiler/layout_pass.h"

namespace trifold {

GivenPlaces shard_state(LaidOutGraph& laid_out, const FlatLayout& layout);

}  // namespace trifold
