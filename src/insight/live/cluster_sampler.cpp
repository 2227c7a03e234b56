#include "insight/live/cluster_sampler.h"

#include <algorithm>

namespace trifold {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpeedsOf = 5s;
// Who is awaited and has not been heard of for so long is missed; whose steps are long, only after some of them.
constexpr double kMissedAfter_s = 3;
constexpr double kMissedAfterSteps = 3;

double seconds_from_to(ClusterSampler::Clock::time_point begin, ClusterSampler::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Of the steps since then; where there was none, of all.
std::optional<double> step_ms(const LiveShard& now, const LiveShard& before) {
  if (now.timed == 0) return std::nullopt;
  const std::int64_t steps = now.timed - before.timed;
  return steps > 0 ? (now.work_ms - before.work_ms) / static_cast<double>(steps)
                   : now.work_ms / static_cast<double>(now.timed);
}

void mark_slow(std::vector<LiveShardState>& shards) {
  std::vector<double> times;
  for (const LiveShardState& shard : shards)
    if (shard.step_ms) times.push_back(*shard.step_ms);
  if (times.size() < 2) return;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);  // of two the quicker
  std::ranges::nth_element(times, middle);
  for (LiveShardState& shard : shards) shard.slow = shard.step_ms && *shard.step_ms > kSlowShard * *middle;
}

}  // namespace

LiveClusterState ClusterSampler::sample(const LiveCluster& cluster, Clock::time_point now) {
  LiveClusterState state{.state = cluster.state, .workers = cluster.workers, .servers = cluster.servers};
  moments_.push_back({now, cluster.shards});
  // The first is the youngest that is old enough.
  while (moments_.size() > 1 && now - moments_[1].at >= kSpeedsOf) moments_.pop_front();
  const double seconds = seconds_from_to(moments_.front().at, now);

  std::int64_t farthest = 0;
  for (const LiveShard& shard : cluster.shards) farthest = std::max(farthest, shard.steps);
  for (std::size_t i = 0; i < cluster.shards.size(); ++i) {
    const LiveShard& shard = cluster.shards[i];
    const LiveShard& before = i < moments_.front().shards.size() ? moments_.front().shards[i] : shard;
    LiveShardState shown{.shard = static_cast<int>(i), .worker = shard.worker, .steps = shard.steps};
    shown.behind = farthest - shard.steps;
    shown.step_ms = step_ms(shard, before);
    shown.staleness = shard.staleness;
    shown.worker_bytes = shard.worker_bytes;
    if (seconds > 0) {
      shown.sent_per_s = static_cast<double>(shard.sent_bytes - before.sent_bytes) / seconds;
      shown.received_per_s = static_cast<double>(shard.received_bytes - before.received_bytes) / seconds;
    }
    if (shard.timed > 0) {
      shown.silent_s = std::max(0.0, seconds_from_to(shard.heard_at, cluster.told_at));
      shown.missed = shard.awaited &&
                     *shown.silent_s > std::max(kMissedAfter_s, kMissedAfterSteps * shown.step_ms.value_or(0) / 1000);
    }
    state.shards.push_back(std::move(shown));
  }
  mark_slow(state.shards);
  return state;
}

}  // namespace trifold
