// Which shards of the data take part in a round: all, or a share drawn anew for each (federated client sampling). A
// pure function, so that servers and workers agree without a word.
#pragma once

#include <cstdint>
#include <vector>

namespace trifold {

struct Participation {
  int shards = 1;
  double fraction = 1;  // of them in a round, at least one
  std::uint64_t seed = 0;

  std::vector<bool> in_round(std::int64_t clock) const;
  int count() const;  // in every round
};

}  // namespace trifold
