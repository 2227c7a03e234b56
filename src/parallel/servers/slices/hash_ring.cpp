// Every item walks the ring from its own point to the first server that has room for it; large items go first, so that
// the small ones fill what is left. Where nobody has room, the least loaded server takes it.
#include "parallel/servers/slices/hash_ring.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <span>
#include <string_view>

#include <xxhash.h>

#include "core/error.h"

namespace trifold {
namespace {

std::uint64_t hash_of(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

struct RingPoint {
  std::uint64_t at = 0;
  int server = 0;  // in the order of names, so that equal hashes are no matter of the list's order

  auto operator<=>(const RingPoint&) const = default;
};

std::vector<RingPoint> points_of(const std::vector<std::string>& servers, int virtual_nodes) {
  std::vector<RingPoint> points;
  points.reserve(servers.size() * static_cast<std::size_t>(virtual_nodes));
  for (std::size_t server = 0; server < servers.size(); ++server)
    for (int node = 0; node < virtual_nodes; ++node)
      points.push_back({hash_of(fmt::format("{}#{}", servers[server], node)), static_cast<int>(server)});
  std::sort(points.begin(), points.end());
  return points;
}

// All servers in the order in which a walk from `at` meets them. Taking a server off the ring takes it out of this
// list, and changes nothing else of it.
void walk(const std::vector<RingPoint>& points, std::uint64_t at, std::span<int> met) {
  const RingPoint from{at, 0};
  std::size_t next = static_cast<std::size_t>(std::lower_bound(points.begin(), points.end(), from) - points.begin());
  for (std::size_t found = 0; found < met.size(); ++next) {
    const int server = points[next % points.size()].server;
    if (std::find(met.begin(), met.begin() + static_cast<std::ptrdiff_t>(found), server) ==
        met.begin() + static_cast<std::ptrdiff_t>(found))
      met[found++] = server;
  }
}

class Ring {
 public:
  Ring(const std::vector<RingItem>& items, const std::vector<std::string>& servers, const RingOptions& options)
      : items_(items), servers_(servers.size()), slack_(options.slack), met_(items.size() * servers.size()) {
    const std::vector<RingPoint> points = points_of(servers, options.virtual_nodes);
    std::vector<std::uint64_t> hashes;
    for (std::size_t item = 0; item < items.size(); ++item) {
      TRIFOLD_CHECK(items[item].bytes >= 0, "'{}' has {} bytes", items[item].name, items[item].bytes);
      total_ += items[item].bytes;
      hashes.push_back(hash_of(items[item].name));
      walk(points, hashes.back(), {met_.data() + item * servers_, servers_});
    }
    order_.resize(items.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
      return hashes[a] != hashes[b] ? hashes[a] < hashes[b] : items[a].name < items[b].name;
    });
  }

  // The owner of each item when server `gone` (-1: none) is not there.
  std::vector<int> owners_without(int gone) const {
    const auto present = static_cast<double>(servers_ - (gone >= 0 ? 1 : 0));
    const auto room = static_cast<std::int64_t>((1 + slack_) * static_cast<double>(total_) / present);
    std::vector<std::int64_t> loads(servers_, 0);
    std::vector<int> owners(items_.size(), -1);
    for (const std::size_t item : order_) {
      int owner = -1;
      int least = -1;  // loaded, the first met among equals
      for (std::size_t i = 0; i < servers_ && owner < 0; ++i) {
        const int server = met_[item * servers_ + i];
        if (server == gone) continue;
        const std::int64_t load = loads[static_cast<std::size_t>(server)];
        if (load + items_[item].bytes <= room) owner = server;
        if (least < 0 || load < loads[static_cast<std::size_t>(least)]) least = server;
      }
      if (owner < 0) owner = least;
      loads[static_cast<std::size_t>(owner)] += items_[item].bytes;
      owners[item] = owner;
    }
    return owners;
  }

 private:
  const std::vector<RingItem>& items_;
  std::size_t servers_;
  double slack_;
  std::int64_t total_ = 0;
  std::vector<int> met_;            // [items, servers]
  std::vector<std::size_t> order_;  // of being placed
};

}  // namespace

std::vector<SlicePlace> place_on_ring(const std::vector<RingItem>& items, const std::vector<std::string>& servers,
                                      const RingOptions& options) {
  TRIFOLD_CHECK(!servers.empty(), "a ring without servers");
  TRIFOLD_CHECK(options.virtual_nodes > 0 && options.slack >= 0, "a ring of {} virtual nodes with slack {}",
                options.virtual_nodes, options.slack);
  std::vector<int> place(servers.size());  // in the list, of the servers in the order of their names
  std::iota(place.begin(), place.end(), 0);
  const auto name = [&](int server) -> const std::string& { return servers[static_cast<std::size_t>(server)]; };
  std::sort(place.begin(), place.end(), [&](int a, int b) { return name(a) < name(b); });
  std::vector<std::string> names;
  for (const int server : place) {
    TRIFOLD_CHECK(names.empty() || names.back() != name(server), "two servers are called '{}'", name(server));
    names.push_back(name(server));
  }

  const Ring ring(items, names, options);
  const std::vector<int> owners = ring.owners_without(-1);
  std::vector<SlicePlace> places(items.size());
  for (std::size_t item = 0; item < items.size(); ++item)
    places[item].primary = place[static_cast<std::size_t>(owners[item])];
  if (servers.size() == 1) return places;
  for (int gone = 0; gone < static_cast<int>(servers.size()); ++gone) {
    const std::vector<int> heirs = ring.owners_without(gone);
    for (std::size_t item = 0; item < items.size(); ++item)
      if (owners[item] == gone) places[item].replica = place[static_cast<std::size_t>(heirs[item])];
  }
  return places;
}

}  // namespace trifold
