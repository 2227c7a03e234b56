#include "parallel/servers/manager/node_reports.h"

#include <algorithm>

namespace trifold {

NodeReports::NodeReports(const Participation& participation, int backup)
    : participation_(participation), backup_(backup), latest_(static_cast<std::size_t>(participation.shards), -1) {}

bool NodeReports::take(int shard, std::int64_t clock, const nlohmann::json& fields) {
  const auto compared = fields.find("compared");
  const std::lock_guard lock(mutex_);
  if (compared == fields.end()) {
    std::int64_t& latest = latest_[static_cast<std::size_t>(shard)];
    latest = std::max(latest, clock);
  } else {
    ShardDifference difference;
    if (const auto distance = fields.find("distance"); distance != fields.end()) difference.distance = *distance;
    if (const auto kl = fields.find("kl"); kl != fields.end()) difference.kl = *kl;
    differences_[clock].emplace(shard, difference);
  }
  news_.notify_all();
  return compared != fields.end();
}

bool NodeReports::all_told(std::int64_t clock) const {
  const std::vector<bool> expected = participation_.in_round(clock);
  const auto told = differences_.find(clock);
  int missing = 0;
  for (std::size_t shard = 0; shard < latest_.size(); ++shard) {
    const bool said = told != differences_.end() && told->second.contains(static_cast<int>(shard));
    missing += expected[shard] && !said && latest_[shard] <= clock ? 1 : 0;
  }
  return missing <= backup_;
}

bool NodeReports::wait_for_differences(std::int64_t clock, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return news_.wait_for(lock, timeout, [&] { return all_told(clock); });
}

std::map<int, ShardDifference> NodeReports::take_differences(std::int64_t clock) {
  const std::lock_guard lock(mutex_);
  differences_.erase(differences_.begin(), differences_.lower_bound(clock));
  const auto found = differences_.find(clock);
  return found == differences_.end() ? std::map<int, ShardDifference>{} : found->second;
}

}  // namespace trifold
