#include "insight/live/cluster_lines.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/counted.h"

namespace trifold {
namespace {

LiveRunOfText state_text(const LiveClusterState& cluster) {
  switch (cluster.state) {
    case LiveCluster::State::gathering:
      return {"waiting for members", Tone::warning};
    case LiveCluster::State::changing:
      return {"servers change: who has what is settled", Tone::warning};
    case LiveCluster::State::replicating:
      return {"slices are on their way to new servers", Tone::warning};
    case LiveCluster::State::whole:
      return {cluster.servers.size() > 1 ? "every slice has its replica" : "one server has no replica", Tone::plain};
  }
  return {};
}

std::string rate_text(double bytes_per_s) {
  return bytes_per_s > 0 ? format_live_bytes(static_cast<std::size_t>(bytes_per_s)) + "/s" : "-";
}

}  // namespace

LiveLine cluster_line(const LiveClusterState& cluster) {
  return {{"cluster   ", Tone::faint},
          {fmt::format("{}, {}; ", counted(cluster.servers.size(), "server"), counted(cluster.workers, "worker")),
           Tone::plain},
          state_text(cluster)};
}

LiveLine servers_line(const LiveClusterState& cluster) {
  std::string text;
  for (const LiveServer& server : cluster.servers)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", server.name, format_live_bytes(server.bytes));
  return {{"servers   ", Tone::faint}, {text, Tone::plain}};
}

ShardColumns::ShardColumns(int columns) : has_rates(columns >= 76), has_bytes(columns >= 96), has_stale(columns >= 60) {
  const int taken = kShard + kSteps + kBehind + (has_stale ? kStale : 0) + kTime + (has_rates ? 2 * kRate : 0) +
                    (has_bytes ? kBytes : 0) + kHeard;
  worker = std::clamp(columns - taken, 0, 32);
}

LiveLine shard_header(const ShardColumns& columns) {
  std::string text = left("shard", ShardColumns::kShard) + left("worker", columns.worker) +
                     right("steps", ShardColumns::kSteps) + right("behind", ShardColumns::kBehind);
  if (columns.has_stale) text += right("stale", ShardColumns::kStale);
  text += right("step", ShardColumns::kTime);
  if (columns.has_rates) text += right("sends", ShardColumns::kRate) + right("receives", ShardColumns::kRate);
  if (columns.has_bytes) text += right("memory", ShardColumns::kBytes);
  return {{text + right("heard", ShardColumns::kHeard), Tone::faint}};
}

LiveLine shard_line(const LiveShardState& shard, const ShardColumns& columns) {
  std::string text = left(fmt::format("{:>4}", shard.shard), ShardColumns::kShard) +
                     left_by_end(shard.worker.empty() ? "nobody" : shard.worker, columns.worker) +
                     right(std::to_string(shard.steps), ShardColumns::kSteps) +
                     right(shard.behind == 0 ? "-" : std::to_string(shard.behind), ShardColumns::kBehind);
  if (columns.has_stale)
    text += right(shard.staleness == 0 ? "-" : std::to_string(shard.staleness), ShardColumns::kStale);
  LiveLine line = {{text, shard.worker.empty() ? Tone::error : Tone::plain}};
  line.push_back({right(shard.step_ms ? format_short_duration(*shard.step_ms / 1000) : "-", ShardColumns::kTime),
                  shard.slow ? Tone::warning : Tone::plain});
  text.clear();
  if (columns.has_rates)
    text += right(rate_text(shard.sent_per_s), ShardColumns::kRate) +
            right(rate_text(shard.received_per_s), ShardColumns::kRate);
  if (columns.has_bytes)
    text += right(shard.worker_bytes > 0 ? format_live_bytes(shard.worker_bytes) : "-", ShardColumns::kBytes);
  line.push_back({text, Tone::plain});
  line.push_back({right(shard.silent_s ? format_short_duration(*shard.silent_s) : "never", ShardColumns::kHeard),
                  shard.missed ? Tone::warning : Tone::plain});
  return line;
}

}  // namespace trifold
