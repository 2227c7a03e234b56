// The element types and reductions of NCCL on host arrays. Ranks are folded in the order of their numbers, 16-bit types
// in float and rounded once, so a result never depends on who came first.
#pragma once

#include <cstddef>
#include <vector>

#include <nccl.h>

namespace gpusim {

bool is_simulated(ncclDataType_t type);
std::size_t bytes_of(ncclDataType_t type);
const char* name_of(ncclDataType_t type);
const char* name_of(ncclRedOp_t op);

// result[i] = contributions[0][i] op contributions[1][i] op ...
void reduce(ncclDataType_t type, ncclRedOp_t op, const std::vector<const std::byte*>& contributions, std::size_t count,
            std::byte* result);

}  // namespace gpusim
