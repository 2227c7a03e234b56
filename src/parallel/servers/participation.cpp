#include "parallel/servers/participation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/philox.h"

namespace trifold {

int Participation::count() const {
  return std::clamp(static_cast<int>(std::lround(fraction * shards)), 1, shards);
}

std::vector<bool> Participation::in_round(std::int64_t clock) const {
  std::vector<bool> drawn(static_cast<std::size_t>(shards), count() == shards);
  if (count() == shards) return drawn;
  std::vector<int> order(drawn.size());
  std::iota(order.begin(), order.end(), 0);
  RandomSequence random(seed, Purpose::clients, 0, static_cast<std::uint64_t>(clock));
  for (int i = 0; i < count(); ++i) {
    const auto from = static_cast<std::size_t>(i);
    const auto pick = from + static_cast<std::size_t>(random.below(static_cast<std::uint32_t>(shards - i)));
    std::swap(order[from], order[pick]);
    drawn[static_cast<std::size_t>(order[from])] = true;
  }
  return drawn;
}

}  // namespace trifold
