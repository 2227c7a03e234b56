// A parameter server as a process: joins a cluster, serves until the job is over, and joins anew, with nothing, when it
// was given up for lost.
#pragma once

#include <atomic>
#include <string>

#include "runtime/cluster/cluster_access.h"

namespace trifold {

struct ServerProcessOptions {
  ClusterAccess access = {};
  std::string listen = "tcp://127.0.0.1:*";
  std::filesystem::path audit = {};              // a folder for its audit log; empty: none
  const std::atomic<bool>* interrupt = nullptr;  // becomes true: leave the cluster, and end
};

void run_server(const ServerProcessOptions& options);

}  // namespace trifold
