// Contributions times factors, added in their order: what the means are made of. Four are read side by side, so that
// memory brings them together, and sums stay in the first cache where there are more.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "parallel/servers/rules/aggregation.h"

namespace trifold {

// out = (sum of factor(i) * contribution i) * scale
template <class Factor>
void weighted_sum(std::span<const Contribution> contributions, Factor&& factor, float scale, std::span<float> out) {
  constexpr std::size_t kBlock = 2048;
  constexpr std::size_t kTogether = 4;
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, out.size() - begin);
    float* __restrict sums = out.data() + begin;
    for (std::size_t i = 0; i < contributions.size();) {
      const std::size_t together = contributions.size() - i >= kTogether ? kTogether : 1;
      const float after = i + together == contributions.size() ? scale : 1.0f;
      const bool first = i == 0;
      if (together == kTogether) {
        std::array<const float*, kTogether> from = {};
        std::array<float, kTogether> by = {};
        for (std::size_t j = 0; j < kTogether; ++j) {
          from[j] = contributions[i + j].values + begin;
          by[j] = factor(i + j);
        }
        const float* __restrict a = from[0], * __restrict b = from[1], * __restrict c = from[2], * __restrict d = from[3];
        if (first)
          for (std::size_t k = 0; k < count; ++k)
            sums[k] = (((a[k] * by[0] + b[k] * by[1]) + c[k] * by[2]) + d[k] * by[3]) * after;
        else
          for (std::size_t k = 0; k < count; ++k)
            sums[k] = ((((sums[k] + a[k] * by[0]) + b[k] * by[1]) + c[k] * by[2]) + d[k] * by[3]) * after;
      } else {
        const float* __restrict next = contributions[i].values + begin;
        const float by = factor(i);
        if (first)
          for (std::size_t k = 0; k < count; ++k) sums[k] = next[k] * by * after;
        else
          for (std::size_t k = 0; k < count; ++k) sums[k] = (sums[k] + next[k] * by) * after;
      }
      i += together;
    }
  }
}

}  // namespace trifold
