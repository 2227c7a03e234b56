// Which tensors are synchronised when (plan.sync.layers, plan.sync.rotate): layers that a pattern names in every clock,
// the others in turns, or not at all but where all are. Groups that take turns have about equally many numbers; what
// belongs to one layer stays together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/servers/server_sync.h"
#include "parallel/servers/slices/slice.h"

namespace trifold {

// Sets the turns of all tensors. Running statistics, which are averaged, are of every clock. `where` begins the
// sentence that says what is wrong: a pattern of no layer, more turns than layers.
void assign_turns(std::vector<ServedTensor>& tensors, const ServerSync& sync,
                  const std::vector<std::int64_t>& all_before, const std::string& where);

// "synchronised in every step: fc1; in turns of 2: conv1, conv2 (3.2 k numbers) | fc2 (2.9 k)". Empty: all are, always.
std::string describe_turns(std::vector<ServedTensor> tensors);

}  // namespace trifold
