#include "insight/work/median.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace trifold {

std::size_t median_of(std::span<const double> values) {
  TRIFOLD_CHECK(!values.empty(), "the median of nothing");
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order[(order.size() - 1) / 2];
}

}  // namespace trifold
