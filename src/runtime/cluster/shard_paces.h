// How the shards of a run keep step: who is slow, how old the values were that each computed with, and whose pushes
// came too late for their round. What is stale is marked as such, step by step in the metrics and in words at the end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parallel/servers/manager/cluster_manager.h"
#include "parallel/servers/server_sync.h"
#include "runtime/train/metric.h"

namespace trifold {

class ShardPaces {
 public:
  // What the shards reported of one clock.
  void add(const std::map<int, ShardReport>& reports);

  // Of the last clock: staleness_worst, staleness_mean and stale_shards where values can be stale (async, ssp),
  // late_slices where pushes can be late (backup).
  std::vector<Metric> metrics_of_step(const ServerSync& sync) const;
  // Of all, as lines; none where there is nothing to say.
  std::vector<std::string> describe(const ServerSync& sync) const;

 private:
  struct Pace {
    std::int64_t clocks = 0;
    double ms = 0;           // in all
    std::int64_t stale = 0;  // clocks computed with stale values
    std::int64_t worst = 0;  // staleness
    std::int64_t late_slices = 0;

    double ms_a_clock() const { return ms / static_cast<double>(clocks); }
  };

  std::map<int, Pace> shards_;
  std::vector<std::int64_t> last_;  // staleness, of the last clock's reports
  std::int64_t last_late_ = 0;
};

}  // namespace trifold
