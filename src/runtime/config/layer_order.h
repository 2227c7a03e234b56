// The order in which layers can run: inputs first, otherwise as written. Refuses cycles and layers nobody reads.
#pragma once

#include <vector>

#include "runtime/config/expand_blocks.h"

namespace trifold {

// Sorts `layers`, whose inputs all exist. The last of the result is the network's output.
std::vector<ExpandedLayer> in_running_order(std::vector<ExpandedLayer> layers);

}  // namespace trifold
