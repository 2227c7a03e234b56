// What a job says of its parameter servers: plan.sync of type "ps" or "federated", checked. Servers, workers and the
// manager all go by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/rules/aggregation.h"
#include "parallel/servers/updates/slice_update.h"

namespace trifold {

// When a worker may go on with values that lack others' pushes.
enum class Consistency {
  sync,   // never: all shards' pushes of a clock are one update
  async,  // always: every push is an update
  ssp,    // while no shard is more than `staleness` clocks behind
};

const char* name_of(Consistency consistency);

// Federated rounds: clients train on their own data and push how their model has changed.
struct FederatedRounds {
  double fraction = 1;            // of the clients, drawn for every round
  std::int64_t local_epochs = 1;  // over a client's own samples
  FederatedArgs update = {};      // what servers do with the clients' change
  double proximal = 0;            // FedProx's mu: pulls clients back to the model they started from; 0: FedAvg

  bool operator==(const FederatedRounds&) const = default;
};

struct ServerSync {
  Consistency consistency = Consistency::sync;
  std::int64_t staleness = 0;  // of ssp
  std::int64_t shards = 1;     // of the data: plan.sync.workers, or clients
  std::int64_t servers = 1;
  std::int64_t backup = 0;    // sync: so many of a clock's pushes are not waited for
  std::int64_t period = 1;    // steps of a shard between two pushes
  bool half = false;          // 16 bits a number on the wire
  double keep = 1;            // share of a gradient that is pushed, the largest; the rest is kept for later pushes
  AggregationArgs rule = {};  // sync and federated
  bool combine = false;       // workers of one host push what the rule makes of theirs, and pull once
  // Patterns of the layers that are synchronised in every clock; empty and rotate 1: all are. The others take turns in
  // `rotate` clocks, or, if that is 1, have none; in between workers go on with what they have of them.
  std::vector<std::string> layers = {};
  std::int64_t rotate = 1;
  std::optional<FederatedRounds> federated = {};  // none: workers push gradients

  // Whether some of the model is not synchronised in every clock.
  bool partial() const { return !layers.empty() || rotate > 1; }
  // Whether workers can have values that others do not have.
  bool nodes_differ() const { return federated || period > 1 || partial() || consistency != Consistency::sync; }
  // The clients of a round, at least one. Without rounds: all shards.
  std::int64_t shards_a_round() const;
  bool operator==(const ServerSync&) const = default;
};

}  // namespace trifold
