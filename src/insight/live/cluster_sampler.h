// Makes what the view shows of a cluster of what is told of it now and was told seconds ago.
#pragma once

#include <deque>
#include <vector>

#include "insight/live/cluster_lines.h"
#include "runtime/train/live_cluster.h"

namespace trifold {

class ClusterSampler {
 public:
  using Clock = LiveShard::Clock;

  // Called some ten times a second.
  LiveClusterState sample(const LiveCluster& cluster, Clock::time_point now);

 private:
  struct Moment {
    Clock::time_point at;
    std::vector<LiveShard> shards;
  };
  std::deque<Moment> moments_;  // of the last seconds, the oldest first
};

}  // namespace trifold
