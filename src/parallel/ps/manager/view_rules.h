// What a manager decides when members come and go, as pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parallel/ps/view.h"

namespace trifold {

// By shard: its worker. Who lives keeps what it has; the rest goes to those with the fewest; who has at least two more
// than another gives one up. Empty where there is no worker.
std::vector<std::string> assign_shards(const std::vector<std::string>& owners, const std::vector<std::string>& workers);

// One head a host whose workers have two shards or more: the one it had, or else the lowest id. Workers that say
// nothing of a host, or cannot be called, are alone.
std::vector<HeadOfHost> assign_heads(const std::vector<HeadOfHost>& before, const std::vector<MemberInfo>& workers,
                                     const std::vector<std::string>& shard_owners);

// What a server says it holds.
using HeldVersions = std::map<int, std::int64_t>;  // by slice

// By slice: the server with the newest version of it; empty where nobody has it.
std::vector<std::string> choose_sources(int slices, const std::map<std::string, HeldVersions>& servers);

}  // namespace trifold
