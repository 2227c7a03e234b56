// The contributions' numbers for each element, sorted: what median and trimmed mean look at.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/servers/rules/aggregation.h"

namespace trifold {

// Calls each_block(rows, count, out) for block after block: rows[i * kSortedBlock + k] is the i-th least number for
// out[k]. What is not a number counts as infinite: a liar may say it.
inline constexpr std::size_t kSortedBlock = 256;

namespace sorting {

inline constexpr std::int32_t kInfinity = 0x7f800000;

// Bits of numbers as integers in the same order, which compilers exchange many at a time; and back.
inline std::int32_t key_of(std::int32_t bits) {
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

// Rows hold keys.
inline void exchange(float* __restrict low, float* __restrict high, std::size_t count) {
  for (std::size_t k = 0; k < count; ++k) {
    const auto a = std::bit_cast<std::int32_t>(low[k]), b = std::bit_cast<std::int32_t>(high[k]);
    low[k] = std::bit_cast<float>(a < b ? a : b);
    high[k] = std::bit_cast<float>(a < b ? b : a);
  }
}

// Batcher's odd-even merge sort: exchanges that do not depend on the numbers, so whole rows are exchanged at a time.
inline void sort_rows(float* rows, std::size_t contributions, std::size_t count) {
  for (std::size_t run = 1; run < contributions; run *= 2)
    for (std::size_t gap = run; gap > 0; gap /= 2)
      for (std::size_t start = gap % run; start + gap < contributions; start += 2 * gap)
        for (std::size_t i = start; i < std::min(start + gap, contributions - gap); ++i)
          if (i / (2 * run) == (i + gap) / (2 * run))
            exchange(rows + i * kSortedBlock, rows + (i + gap) * kSortedBlock, count);
}

}  // namespace sorting

template <class EachBlock>
void for_sorted_columns(std::span<const Contribution> contributions, std::span<float> out, EachBlock&& each_block) {
  static thread_local std::vector<float> buffer;
  buffer.resize(contributions.size() * kSortedBlock);
  float* rows = buffer.data();
  for (std::size_t begin = 0; begin < out.size(); begin += kSortedBlock) {
    const std::size_t count = std::min(kSortedBlock, out.size() - begin);
    for (std::size_t i = 0; i < contributions.size(); ++i) {
      const float* values = contributions[i].values + begin;
      for (std::size_t k = 0; k < count; ++k) {
        const auto bits = std::bit_cast<std::int32_t>(values[k]);
        const bool number = (bits & 0x7fffffff) <= sorting::kInfinity;
        rows[i * kSortedBlock + k] = std::bit_cast<float>(number ? sorting::key_of(bits) : sorting::kInfinity);
      }
    }
    sorting::sort_rows(rows, contributions.size(), count);
    for (std::size_t i = 0; i < buffer.size(); ++i)
      rows[i] = std::bit_cast<float>(sorting::key_of(std::bit_cast<std::int32_t>(rows[i])));
    each_block(rows, count, out.data() + begin);
  }
}

}  // namespace trifold
