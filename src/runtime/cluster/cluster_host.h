// The manager's process: keeps the registry, unless etcd does, leads the cluster, and starts servers and workers on
// this machine where that is asked for. Those that are lost may be replaced. The others go on when the manager is lost:
// with etcd another one that stood by leads them then, without it the same one, started again, from its registry's
// file.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallel/processes/child_process.h"
#include "runtime/cluster/cluster_access.h"
#include "runtime/cluster/served_learner.h"

namespace trifold {

struct ClusterHostOptions {
  ClusterAccess access = {};                     // its `manager` is where this one listens
  std::vector<std::string> server_command = {};  // a path and its arguments, to which "--manager address" comes; empty:
  std::vector<std::string> worker_command = {};  // servers and workers are started elsewhere
  int servers = 1;                               // to start, or to wait for
  int workers = 1;
  int replacements = 0;  // of started ones that are lost, at most
  int gpus_each = 0;     // that a started worker has to itself; 0: what it finds
  // Where the registry is kept so that this manager, started again, finds it; empty: it need not be found. Not of etcd.
  std::filesystem::path registry_file = {};
};

// All of them here, from `program`: as many workers as the plan has shards, or so many processes that share them.
// Workers of a job that does not say how many threads it has divide the cores: teams that spin would starve each other.
ClusterHostOptions cluster_of_this_machine(const Job& job, const std::filesystem::path& program, int processes = 0);

class ClusterHost final : public ClusterSide {
 public:
  ClusterHost(const Job& job, ClusterHostOptions options);
  ~ClusterHost() override;  // ends what it started
  ClusterHost(const ClusterHost&) = delete;
  ClusterHost& operator=(const ClusterHost&) = delete;

  enum class Lead {
    new_job,
    cluster,  // of a job that had begun, or was about to, when its manager was lost
    nothing,  // the job was done, by another manager, or standing by was interrupted
  };
  // Waits until this manager leads, and finds out what. Before open(); who starts its members itself need not. again:
  // it has led this job before, so a registry that does not know it says that it is done.
  Lead stand_by(const std::atomic<bool>& interrupt, bool again = false);
  // Of a cluster that lives: where its last manager stood. Null: at the beginning.
  std::optional<TrainingState> progress() const;

  ClusterManager& open(const ServicePlan& plan) override;
  ServerClient& client() override;
  void look_after_members() override;
  bool keep_progress(const TrainingState& state) override;

  // The job is done: members go. What was started and does not is killed.
  void end();
  // The cluster goes on, perhaps led by another: this manager's lease has run out.
  bool lost_leadership() const;

  std::string address() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trifold
