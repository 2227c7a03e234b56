// How a value lies on the tensor ranks.
#pragma once

namespace trifold {

enum class Placement {
  whole,     // every rank has all of it, the same numbers
  channels,  // each rank has its run of the channels
  rows,      // each rank has its run of the image's rows (rows_of_part)
  blocks,    // each rank of a square grid has a run of the samples and of the features
  shared,    // whole, and read by layers of which each rank has a part: their gradients are summed over ranks
  partial,   // each rank has a term of a sum: the value is the sum over ranks
};

}  // namespace trifold
