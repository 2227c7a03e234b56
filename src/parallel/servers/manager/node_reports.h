// What workers tell the manager of their shards besides the loss: how far the models that they are left with are from
// the servers'. Several threads may use it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "parallel/servers/participation.h"

namespace trifold {

// Nothing: the worker that had the model is lost, or the job ended there.
struct ShardDifference {
  std::optional<double> distance = {};
  std::optional<double> kl = {};
};

class NodeReports {
 public:
  NodeReports(const Participation& participation, int backup);

  // A report's fields, of a shard that exists: true if they are about such a comparison. Of one that was made again the
  // first counts.
  bool take(int shard, std::int64_t clock, const nlohmann::json& fields);

  // Whether all that took part in this clock have said how they differ, or have gone on without, but for the backup
  // workers; waits at most so long.
  bool wait_for_differences(std::int64_t clock, std::chrono::milliseconds timeout);
  // By shard. Of earlier clocks nobody will ask.
  std::map<int, ShardDifference> take_differences(std::int64_t clock);

 private:
  bool all_told(std::int64_t clock) const;  // mutex_

  const Participation participation_;
  const int backup_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::map<std::int64_t, std::map<int, ShardDifference>> differences_;  // by clock; mutex_
  std::vector<std::int64_t> latest_;                                    // by shard: clock that it has done; mutex_
};

}  // namespace trifold
