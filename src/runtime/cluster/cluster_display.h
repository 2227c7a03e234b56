// Tells a live view what the manager knows of its cluster: who serves how much, and how each shard keeps up.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "parallel/servers/manager/cluster_manager.h"
#include "runtime/cluster/cluster_plan.h"
#include "runtime/train/live_board.h"

namespace trifold {

class ClusterDisplay {
 public:
  // The view may begin to show the run.
  ClusterDisplay(LiveBoard& board, const Job& job, const ServicePlan& plan, const ClusterManager& manager);

  // `clock`: the one that is waited for. Called as often as one likes; it tells the board some ten times a second.
  void update(std::int64_t clock);

 private:
  const std::vector<LiveServer>& servers_of(const View& view);

  LiveBoard& board_;
  const ServedLayout layout_;
  const Participation participation_;
  const ClusterManager& manager_;
  std::chrono::steady_clock::time_point told_ = {};
  std::int64_t epoch_ = -1;  // of the servers
  std::vector<LiveServer> servers_;
};

}  // namespace trifold
