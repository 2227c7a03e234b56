#include "parallel/servers/slices/sync_turns.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace trifold {

std::int64_t SyncTurns::next(std::int64_t clock) const {
  if (every == 1) return clock;
  TRIFOLD_CHECK(every > 0 || !all_before.empty(), "a tensor that is never synchronised");
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  if (every > 0) first = clock + ((turn - clock) % every + every) % every;
  for (const std::int64_t clocks : all_before) first = std::min(first, (clock / clocks + 1) * clocks - 1);
  return first;
}

std::int64_t SyncTurns::count_before(std::int64_t clock) const {
  if (every == 1) return clock;
  std::int64_t count = 0;
  for (std::int64_t turn_at = next(0); turn_at < clock; turn_at = next(turn_at + 1)) ++count;
  return count;
}

}  // namespace trifold
