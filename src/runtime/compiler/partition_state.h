// What replicas exchange of their buckets within forward and backward work. Gradients that are added up aside begin to
// be as soon as the last of a bucket is there. With ZeRO's stage 2 a bucket's gradients are made side by side in the
// arena and leave it as this replica's part of their sum; with stage 3 a bucket's parameters are gathered into the
// arena before the first node of the forward work that reads one of them, and again for the backward work and, before
// that, for forward work that is repeated there.
#pragma once

#include "runtime/compiler/flat_layout.h"
#include "runtime/compiler/layout_pass.h"

namespace trifold {

GivenPlaces partition_state(LaidOutGraph& laid_out, const FlatLayout& layout);

}  // namespace trifold
