// Where the slices of a model lie: the ring's answer, to which servers, workers and managers come alike.
#pragma once

#include <string>
#include <vector>

#include "parallel/servers/slices/hash_ring.h"
#include "parallel/servers/slices/slice.h"

namespace trifold {

// By slice. `servers`: their ids.
std::vector<SlicePlace> place_slices(const std::vector<ServedTensor>& tensors, const std::vector<Slice>& slices,
                                     const std::vector<std::string>& servers);

}  // namespace trifold
