// Batch norm under several plans of one job: the groups of samples that each of them can take together.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/train/parallel_plan.h"

namespace trifold {

// The largest group that every plan can honour, and no larger than wanted. A group of one always can be.
std::int64_t common_bn_group(std::span<const BatchParts> plans, std::int64_t wanted);

}  // namespace trifold
