// What a manager decides when members come and go, as pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parallel/servers/view.h"

namespace trifold {

// By shard: its worker. Who lives keeps what it has; the rest goes to those with the fewest; who has at least two more
// than another gives one up. Empty where there is no worker.
std::vector<std::string> assign_shards(const std::vector<std::string>& owners, const std::vector<std::string>& workers);

// One head a host whose workers have two shards or more: the one it had, or else the lowest id. Workers that say
// nothing of a host, or cannot be called, are alone.
std::vector<HeadOfHost> assign_heads(const std::vector<HeadOfHost>& before, const std::vector<MemberInfo>& workers,
                                     const std::vector<std::string>& shard_owners);

// Which of two states of a slice is newer: that of the later owner, or of one owner that of the later version. One who
// was given up for lost may have gone on for a moment, to versions that the next owner made otherwise.
struct HeldState {
  std::int64_t epoch = 0;  // in which its owner came to own it
  std::int64_t version = 0;

  auto operator<=>(const HeldState&) const = default;
};

// What a server says of itself.
struct ServerReport {
  std::vector<std::string> ids = {};   // that it has had, if it was given up and came back with what it held
  std::map<int, HeldState> held = {};  // by slice
};

// Who could have acknowledged pushes last: of each slice, the owner and its replica (empty: none).
struct LastKeepers {
  std::int64_t epoch = 0;  // 0: nobody yet
  bool first = false;      // they began with the first values
  struct Pair {
    std::string owner = {};
    std::string replica = {};
  };
  std::vector<Pair> of_slice = {};
};

// By slice: who has its newest state. Of one that nobody has brought on from the first values, `beginner`, who has
// those. Empty where pushes may have been acknowledged that are in no state at hand.
std::vector<std::string> choose_sources(int slices, const std::map<std::string, ServerReport>& servers,
                                        const LastKeepers& last, const std::string& beginner);

}  // namespace trifold
