#include "insight/compare/common_group.h"

#include <algorithm>

namespace trifold {

std::int64_t common_bn_group(std::span<const BatchParts> plans, std::int64_t wanted) {
  for (std::int64_t group = wanted; group > 1; --group)
    if (std::ranges::all_of(plans, [&](const BatchParts& plan) { return can_take_group(group, plan); })) return group;
  return 1;
}

}  // namespace trifold
