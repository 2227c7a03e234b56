#include "parallel/servers/server_sync.h"

#include <algorithm>
#include <cmath>

namespace trifold {

const char* name_of(Consistency consistency) {
  switch (consistency) {
    case Consistency::sync:
      return "sync";
    case Consistency::async:
      return "async";
    case Consistency::ssp:
      return "ssp";
  }
  return "?";
}

std::int64_t ServerSync::shards_a_round() const {
  if (!federated) return shards;
  return std::clamp<std::int64_t>(std::llround(federated->fraction * static_cast<double>(shards)), 1, shards);
}

}  // namespace trifold
