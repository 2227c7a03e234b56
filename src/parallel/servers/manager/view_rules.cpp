#include "parallel/servers/manager/view_rules.h"

#include <algorithm>

namespace trifold {

std::vector<std::string> assign_shards(const std::vector<std::string>& owners,
                                       const std::vector<std::string>& workers) {
  std::vector<std::string> assigned = owners;
  if (workers.empty()) {
    std::ranges::fill(assigned, std::string());
    return assigned;
  }
  std::map<std::string, int> load;
  for (const std::string& worker : workers) load[worker] = 0;
  for (std::string& owner : assigned) {
    const auto alive = load.find(owner);
    if (alive == load.end())
      owner.clear();
    else
      ++alive->second;
  }
  const auto by_load = [](const auto& a, const auto& b) { return a.second < b.second; };
  for (std::string& owner : assigned) {
    if (!owner.empty()) continue;
    const auto least = std::ranges::min_element(load, by_load);
    owner = least->first;
    ++least->second;
  }
  while (true) {
    const auto least = std::ranges::min_element(load, by_load);
    const auto most = std::ranges::max_element(load, by_load);
    if (most->second - least->second < 2) return assigned;
    // The last of its shards: it has come to that one latest in this clock.
    const auto given = std::find(assigned.rbegin(), assigned.rend(), most->first);
    *given = least->first;
    ++least->second;
    --most->second;
  }
}

std::vector<HeadOfHost> assign_heads(const std::vector<HeadOfHost>& before, const std::vector<MemberInfo>& workers,
                                     const std::vector<std::string>& shard_owners) {
  std::map<std::string, std::map<std::string, const MemberInfo*>> hosts;  // their workers, by id
  for (const MemberInfo& worker : workers)
    if (!worker.host.empty() && !worker.address.empty()) hosts[worker.host].emplace(worker.id, &worker);
  std::vector<HeadOfHost> heads;
  for (const auto& [host, members] : hosts) {
    const auto here = [&members = members](const std::string& worker) { return members.contains(worker); };
    if (std::ranges::count_if(shard_owners, here) < 2) continue;
    HeadOfHost& head = heads.emplace_back(HeadOfHost{.member = *members.begin()->second});
    for (const HeadOfHost& old : before)
      if (here(old.member.id)) head.member = *members.at(old.member.id);
    for (const auto& [id, member] : members) head.workers.push_back(id);
  }
  return heads;
}

std::vector<std::string> choose_sources(int slices, const std::map<std::string, ServerReport>& servers,
                                        const LastKeepers& last, const std::string& beginner) {
  const auto is_here = [&](const std::string& id) {
    return !id.empty() && std::ranges::any_of(
                              servers, [&](const auto& entry) { return std::ranges::count(entry.second.ids, id) > 0; });
  };
  std::vector<std::string> sources(static_cast<std::size_t>(slices));
  for (int slice = 0; slice < slices; ++slice) {
    std::string& source = sources[static_cast<std::size_t>(slice)];
    HeldState newest{.epoch = -1};
    for (const auto& [server, report] : servers) {
      const auto found = report.held.find(slice);
      if (found == report.held.end() || found->second <= newest) continue;
      newest = found->second;
      source = server;
    }
    if (last.epoch == 0 || newest.epoch >= last.epoch) {
      if (source.empty()) source = beginner;
      continue;
    }
    // Either keeper would have what was acknowledged: if one is here, and without it, nothing was.
    const LastKeepers::Pair& keepers = last.of_slice.at(static_cast<std::size_t>(slice));
    if (!is_here(keepers.owner) && !is_here(keepers.replica))
      source.clear();
    else if (source.empty() && last.first)
      source = beginner;
  }
  return sources;
}

}  // namespace trifold
