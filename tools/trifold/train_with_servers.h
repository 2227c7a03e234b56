// Trains a job by workers and parameter servers that are processes of this machine; this one is their manager.
#pragma once

#include <string>

#include "runtime/config/job.h"
#include "runtime/train/trainer.h"

namespace trifold {

struct ServersHere {
  int workers = 0;         // processes that share the shards; 0: one per shard
  int replacements = 0;    // of lost servers and workers, at most
  std::string audit = {};  // folder of their logs; empty: none
};

TrainingOutcome train_with_servers(const Job& job, const ServersHere& here, TrainerOptions options);

}  // namespace trifold
