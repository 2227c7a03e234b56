// A worker as a process: joins a cluster, learns its job, and trains on the shards that the manager gives it.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "runtime/cluster/cluster_access.h"

namespace trifold {

struct WorkerProcessOptions {
  ClusterAccess access = {};
  std::vector<std::string> set = {};             // fields of the job that differ here: "data.path=/data"
  std::string host = {};                         // workers of one are on one machine; empty: as the machine is known
  std::filesystem::path audit = {};              // a folder for its audit log; empty: none
  const std::atomic<bool>* interrupt = nullptr;  // becomes true: leave the cluster, and end
};

void run_worker_process(const WorkerProcessOptions& options);

}  // namespace trifold
