// The types of plan.sync that train with parameter servers, "ps" and "federated": their fields, and what they ask of
// the rest of the job.
#pragma once

#include <string>

#include "parallel/servers/server_sync.h"
#include "runtime/config/object_type.h"
#include "runtime/config/validate.h"

namespace trifold {

struct Job;

ObjectType ps_sync_type();
ObjectType federated_sync_type();
bool is_server_sync(const std::string& type);

ServerSync read_server_sync(const ObjectValues& sync);

// Shards of the data are those of parameter servers: refuses them without, and fills in the division that was not said.
void settle_division(Job& job, const JsonNode& tree);

// Refuses rules of train.stop that ask nodes of a cluster where there are none, or where they cannot differ.
void check_node_rules(const Job& job, const JsonNode& tree);

// Refuses what workers of the job's servers cannot do, and fills in defaults that depend on them. `tree` is the job as
// it was written, for the places of mistakes and for what was not said.
void fit_to_servers(Job& job, const JsonNode& tree);

}  // namespace trifold
