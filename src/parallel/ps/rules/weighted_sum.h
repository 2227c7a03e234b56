// Contributions times factors, added in their order: what the means are made of. One pass over each, in blocks whose
// sums stay in the first cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "parallel/ps/rules/aggregation.h"

namespace trifold {

// out = (sum of factor(i) * contribution i) * scale
template <class Factor>
void weighted_sum(std::span<const Contribution> contributions, Factor&& factor, float scale, std::span<float> out) {
  constexpr std::size_t kBlock = 2048;
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, out.size() - begin);
    float* __restrict sums = out.data() + begin;
    const float* __restrict first = contributions[0].values + begin;
    const float first_factor = factor(0) * (contributions.size() == 1 ? scale : 1.0f);
    for (std::size_t k = 0; k < count; ++k) sums[k] = first[k] * first_factor;
    for (std::size_t i = 1; i < contributions.size(); ++i) {
      const float* __restrict next = contributions[i].values + begin;
      const float next_factor = factor(i);
      const float after = i + 1 == contributions.size() ? scale : 1.0f;
      for (std::size_t k = 0; k < count; ++k) sums[k] = (sums[k] + next[k] * next_factor) * after;
    }
  }
}

}  // namespace trifold
