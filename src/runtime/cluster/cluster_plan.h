// From a job to what the servers, workers and manager of its cluster go by. The manager makes it; the others learn job
// and plan from the registry, so that a server opens neither the data nor the network.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/servers/server/parameter_server.h"
#include "parallel/servers/server_sync.h"
#include "runtime/config/job.h"

namespace trifold {

inline constexpr const char* kServiceName = "service";  // in the registry: ServicePlan

// What servers must know.
struct ServicePlan {
  std::vector<ServedTensor> tensors = {};
  ServerSync sync = {};
  OptimizerArgs optimizer = {};
  std::vector<std::int64_t> cut_every = {};  // clocks
  std::uint64_t seed = 0;

  Participation participation() const;
  ConsistencyRules rules() const;
  ServedLayout layout() const;
  std::unique_ptr<SliceUpdate> update() const;
};

// Clocks of an epoch: whole batches of all shards together, whatever each of them has; of federated training a round.
std::int64_t clocks_per_epoch(const Job& job, std::int64_t samples);

ServicePlan plan_service(const Job& job, std::vector<ServedTensor> tensors, std::int64_t steps_per_epoch);

// What does not follow from the job: tensors and cuts.
std::string to_text(const ServicePlan& plan);
ServicePlan service_from_text(const Job& job, const std::string& text);

// A job's model as one rank without servers has it: to begin with, to evaluate, to save.
Job job_of_one_rank(const Job& job);

}  // namespace trifold
