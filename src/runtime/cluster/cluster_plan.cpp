#include "runtime/cluster/cluster_plan.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runtime/cluster/partial_sync.h"

namespace trifold {
namespace {

ConsistencyRules::Mode mode_of(Consistency consistency) {
  switch (consistency) {
    case Consistency::sync:
      return ConsistencyRules::Mode::sync;
    case Consistency::async:
      return ConsistencyRules::Mode::async;
    case Consistency::ssp:
      return ConsistencyRules::Mode::ssp;
  }
  TRIFOLD_CHECK(false, "no such consistency");
}

ServicePlan service_of(const Job& job) {
  TRIFOLD_CHECK(job.plan.servers.has_value(), "a job without servers");
  return {.sync = *job.plan.servers, .optimizer = job.train.optimizer, .seed = job.train.seed};
}

// The running statistics of batch norm: every shard moves them by each of its groups. Clients of federated rounds do it
// as often as they have batches, and rules that mistrust workers judge these numbers too: there they are averaged.
double kept_of(const ServedTensor& tensor, const Job& job) {
  const ServerSync& sync = *job.plan.servers;
  const bool trusts = sync.rule.rule == "mean" || sync.rule.rule == "weighted_mean";
  if (tensor.trained || sync.federated || !trusts) return 0;
  const auto layer = std::ranges::find_if(job.model.layers, [&](const LayerSpec& candidate) {
    return candidate.type == "batch_norm" && tensor.name.starts_with(candidate.id + ".running_");
  });
  if (layer == job.model.layers.end()) return 0;
  const std::int64_t samples = job.train.batch / sync.shards * sync.period;
  const double groups = static_cast<double>(samples) / static_cast<double>(job.train.bn_group);
  return std::pow(1 - layer->values.number("momentum"), groups);
}

}  // namespace

Participation ServicePlan::participation() const {
  return {.shards = static_cast<int>(sync.shards),
          .fraction = sync.federated ? sync.federated->fraction : 1.0,
          .seed = seed};
}

ConsistencyRules ServicePlan::rules() const {
  return {.mode = mode_of(sync.consistency),
          .staleness = sync.staleness,
          .backup = static_cast<int>(sync.backup),
          .participation = participation(),
          .cut_every = cut_every};
}

std::unique_ptr<SliceUpdate> ServicePlan::update() const {
  return sync.federated ? make_federated_update(sync.federated->update) : make_optimizer_update(optimizer);
}

ServedLayout ServicePlan::layout() const {
  return {.tensors = tensors,
          .slices = cut_into_slices(tensors),
          .states = static_cast<int>(update()->state_names().size()),
          .shards = static_cast<int>(sync.shards)};
}

std::int64_t clocks_per_epoch(const Job& job, std::int64_t samples) {
  if (job.plan.servers->federated) return samples > 0 ? 1 : 0;
  return samples / job.train.batch / job.plan.servers->period;
}

ServicePlan plan_service(const Job& job, std::vector<ServedTensor> tensors, std::int64_t steps_per_epoch) {
  ServicePlan plan = service_of(job);
  plan.tensors = std::move(tensors);
  for (ServedTensor& tensor : plan.tensors) tensor.keeps = kept_of(tensor, job);
  plan.cut_every = {steps_per_epoch};
  if (job.train.checkpoint.every_steps > 0) plan.cut_every.push_back(job.train.checkpoint.every_steps);
  // Workers then have nothing that servers lack: a cut, of an epoch or a checkpoint, is all of the model. Rounds of
  // clients are each an epoch, so there it is at the end.
  const bool rounds = plan.sync.federated.has_value();
  const std::vector<std::int64_t> end = {std::max<std::int64_t>(1, steps_per_epoch * job.train.epochs)};
  assign_turns(plan.tensors, plan.sync, rounds ? end : plan.cut_every, job.file.string());
  return plan;
}

std::string to_text(const ServicePlan& plan) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const ServedTensor& tensor : plan.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"elements", tensor.elements},
                       {"trained", tensor.trained},
                       {"keeps", tensor.keeps},
                       {"decays", tensor.decays},
                       {"every", tensor.turns.every},
                       {"turn", tensor.turns.turn},
                       {"all_before", tensor.turns.all_before}});
  return nlohmann::json{{"tensors", std::move(tensors)}, {"cut_every", plan.cut_every}}.dump();
}

ServicePlan service_from_text(const Job& job, const std::string& text) {
  ServicePlan plan = service_of(job);
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    for (const nlohmann::json& tensor : json.at("tensors"))
      plan.tensors.push_back({.name = tensor.at("name"),
                              .elements = tensor.at("elements"),
                              .trained = tensor.at("trained"),
                              .keeps = tensor.at("keeps"),
                              .decays = tensor.at("decays"),
                              .turns = {.every = tensor.at("every"),
                                        .turn = tensor.at("turn"),
                                        .all_before = tensor.at("all_before").get<std::vector<std::int64_t>>()}});
    plan.cut_every = json.at("cut_every").get<std::vector<std::int64_t>>();
  } catch (const nlohmann::json::exception& error) {
    fail_runtime("the registry's plan of the servers cannot be read: {}", error.what());
  }
  return plan;
}

Job job_of_one_rank(const Job& job) {
  Job alone = job;
  alone.plan = PlanConfig{.device = job.plan.device.substr(0, job.plan.device.find(':'))};
  return alone;
}

}  // namespace trifold
