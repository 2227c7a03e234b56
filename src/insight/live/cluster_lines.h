// A cluster in the live view: one line on its servers, and a table of shards that says who is slow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "insight/live/live_text.h"
#include "runtime/train/live_cluster.h"

namespace trifold {

struct LiveShardState {
  int shard = 0;
  std::string worker = {};  // empty: nobody has it
  std::int64_t steps = 0;
  std::int64_t behind = 0;             // steps that the farthest is ahead
  std::optional<double> step_ms = {};  // of the last seconds
  std::int64_t staleness = 0;
  double sent_per_s = 0, received_per_s = 0;  // bytes
  std::size_t worker_bytes = 0;
  std::optional<double> silent_s = {};  // since it last said something
  bool slow = false;                    // against the others
  bool missed = false;                  // all wait for it, and it is silent
};

struct LiveClusterState {
  LiveCluster::State state = LiveCluster::State::gathering;
  int workers = 0;
  std::vector<LiveServer> servers = {};
  std::vector<LiveShardState> shards = {};
};

LiveLine cluster_line(const LiveClusterState& cluster);
LiveLine servers_line(const LiveClusterState& cluster);

// The columns of the table of shards, at a width: the worker's name takes what the others leave.
struct ShardColumns {
  explicit ShardColumns(int columns);

  static constexpr int kShard = 7, kSteps = 9, kBehind = 8, kStale = 7, kTime = 9, kRate = 12, kBytes = 10, kHeard = 9;
  bool has_rates, has_bytes, has_stale;
  int worker = 0;
};
LiveLine shard_header(const ShardColumns& columns);
LiveLine shard_line(const LiveShardState& shard, const ShardColumns& columns);

}  // namespace trifold
