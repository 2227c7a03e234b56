// Which server owns which slice: consistent hashing with virtual nodes and bounded loads (Mirrokni et al. 2017), so
// that a server that comes or goes moves about its share of the bytes, and no server has much more than its share. A
// pure function of names and sizes, whatever their order: every member comes to the same placement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trifold {

struct RingItem {
  std::string name;
  std::int64_t bytes = 0;
};

struct SlicePlace {
  int primary = 0;   // indices of servers
  int replica = -1;  // the next on the ring: the primary of a ring without `primary`; -1: there is only one server

  bool operator==(const SlicePlace&) const = default;
};

struct RingOptions {
  int virtual_nodes = 128;  // a server
  double slack = 0.03;      // a server has at most (1 + slack) of the mean load, but for its last slice
};

// One place an item. Servers are known by their names, not by their order. When one of them goes, each item it had is
// its replica's in the new placement.
std::vector<SlicePlace> place_on_ring(const std::vector<RingItem>& items, const std::vector<std::string>& servers,
                                      const RingOptions& options = {});

}  // namespace trifold
