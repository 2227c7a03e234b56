#include "runtime/config/server_section.h"

#include <algorithm>
#include <initializer_list>

#include "layers/layer.h"
#include "runtime/config/job.h"
#include "runtime/config/optimizer_types.h"

namespace trifold {
namespace {

constexpr double kMostShards = 4096;
constexpr double kMostServers = 1024;

Field servers_field() {
  return {.name = "servers",
          .fallback = std::int64_t{1},
          .minimum = 1,
          .maximum = kMostServers,
          .help = "that share the parameters"};
}

Field wire_field() {
  return {.name = "wire",
          .kind = FieldKind::choice,
          .fallback = std::string("fp32"),
          .choices = {"fp32", "fp16"},
          .help = "what numbers are sent as"};
}

Field combine_field() {
  return {.name = "combine",
          .kind = FieldKind::choice,
          .fallback = std::string("none"),
          .choices = {"none", "host"},
          .help = "host: workers of one machine push their mean as one, and pull once; in rounds of a mean"};
}

Fields partial_fields() {
  return {
      {.name = "layers",
       .kind = FieldKind::texts,
       .fallback = std::vector<std::string>(),
       .help = "patterns of layers (\"conv*\") that are synchronised every time, where not all are; the others are at "
               "the end of an epoch, of federated rounds at the end of the job"},
      {.name = "rotate",
       .fallback = std::int64_t{1},
       .minimum = 1,
       .help = "of the layers that 'layers' does not name (all, without it), another share of one in so many is "
               "synchronised each time; workers go on alone with the rest"}};
}

Fields rule_fields(const char* fallback) {
  const AggregationArgs defaults;
  return {{.name = "rule",
           .kind = FieldKind::choice,
           .fallback = std::string(fallback),
           .choices = {"mean", "weighted_mean", "sign_vote", "median", "trimmed_mean", "krum"},
           .help = "how the pushes of a round become one; weighted_mean: by samples"},
          {.name = "trim",
           .kind = FieldKind::number,
           .fallback = defaults.trim,
           .minimum = 0,
           .maximum = 0.49,
           .help = "trimmed_mean: share that is left out at each end"},
          {.name = "byzantine",
           .fallback = std::int64_t{defaults.byzantine},
           .minimum = 0,
           .maximum = kMostShards,
           .help = "krum: how many may lie"}};
}

bool says(const ObjectValues& object, const char* field) {
  return object.node != nullptr && object.node->find(field) != nullptr;
}

// A field that would do nothing is a mistake of whoever wrote it.
void check_idle(const ObjectValues& sync, std::initializer_list<const char*> fields, bool used, const char* when) {
  for (const char* field : fields)
    if (!used && says(sync, field))
      fail_field(sync, field, *sync.node, "'{}' counts with {} only: leave it out", field, when);
}

bool is_mean(const std::string& rule) {
  return rule == "mean" || rule == "weighted_mean";
}

AggregationArgs read_rule(const ObjectValues& sync, std::int64_t pushes) {
  const AggregationArgs rule{.rule = sync.values.text("rule"),
                             .trim = sync.values.number("trim"),
                             .byzantine = static_cast<int>(sync.values.integer("byzantine"))};
  check_idle(sync, {"trim"}, rule.rule == "trimmed_mean", "the rule trimmed_mean");
  check_idle(sync, {"byzantine"}, rule.rule == "krum", "the rule krum");
  if (rule.rule == "krum" && pushes < 2 * rule.byzantine + 3)
    fail_field(sync, "rule", *sync.node, "krum sees through {} that lie among {} or more, and a round has {}",
               rule.byzantine, 2 * rule.byzantine + 3, pushes);
  return rule;
}

void read_partial(const ObjectValues& object, ServerSync& sync) {
  sync.layers = object.values.texts("layers");
  sync.rotate = object.values.integer("rotate");
  if (sync.partial() && sync.rule.rule == "krum")
    fail_field(object, sync.rotate > 1 ? "rotate" : "layers", *object.node,
               "krum chooses among whole models: leave it out, or set 'rule' to another");
}

// Only what all shards of a round push, and a mean of it, can be made in parts.
bool read_combine(const ObjectValues& object, const ServerSync& sync) {
  if (object.values.text("combine") != "host") return false;
  const auto refuse = [&](const std::string& why) {
    fail_field(object, "combine", *object.node, "workers of a host cannot combine what they push {}", why);
  };
  if (sync.consistency != Consistency::sync)
    refuse(fmt::format("where every push is an update of its own: set 'mode' to \"sync\", not \"{}\"",
                       name_of(sync.consistency)));
  if (!is_mean(sync.rule.rule))
    refuse(fmt::format("where {} is to judge each by itself: set 'rule' to \"mean\" or \"weighted_mean\"",
                       sync.rule.rule));
  if (sync.backup > 0) refuse("where the slowest are not waited for: set 'backup' to 0");
  if (sync.keep < 1) refuse("where each pushes other numbers of a gradient: set 'keep' to 1");
  return true;
}

Consistency read_consistency(const std::string& name) {
  for (const Consistency which : {Consistency::async, Consistency::ssp})
    if (name == name_of(which)) return which;
  return Consistency::sync;
}

ServerSync read_ps(const ObjectValues& object) {
  const FieldValues& values = object.values;
  ServerSync sync{.consistency = read_consistency(values.text("mode")),
                  .shards = values.integer("workers"),
                  .servers = values.integer("servers"),
                  .backup = values.integer("backup"),
                  .period = values.integer("period"),
                  .half = values.text("wire") == "fp16",
                  .keep = values.number("keep")};
  const bool rounds = sync.consistency == Consistency::sync;
  if (sync.consistency == Consistency::ssp) sync.staleness = values.integer("staleness");
  check_idle(object, {"staleness"}, sync.consistency == Consistency::ssp, "the mode ssp");
  check_idle(object, {"backup"}, rounds, "the mode sync");
  if (sync.backup >= sync.shards)
    fail_field(object, "backup", *object.node, "of {} worker{} at most {} can be left unwaited for, not {}",
               sync.shards, sync.shards == 1 ? "" : "s", sync.shards - 1, sync.backup);
  sync.rule = read_rule(object, sync.shards - sync.backup);
  if (!rounds && !is_mean(sync.rule.rule))
    fail_field(object, "rule", *object.node,
               "{} applies every push when it comes, so there is nothing for {} to choose from: set 'mode' to \"sync\"",
               name_of(sync.consistency), sync.rule.rule);
  if (sync.keep < 1 && (sync.rule.rule == "median" || sync.rule.rule == "trimmed_mean"))
    fail_field(object, "keep", *object.node,
               "where most pushes leave most numbers out, their {} is 0: set 'keep' to 1, or 'rule' to \"mean\"",
               sync.rule.rule);
  sync.combine = read_combine(object, sync);
  read_partial(object, sync);
  return sync;
}

ServerSync read_federated(const ObjectValues& object) {
  const FieldValues& values = object.values;
  const std::string& server = values.text("server");
  const bool plain = server == "fedavg";
  check_idle(object, {"server_momentum"}, plain, "the server fedavg");
  check_idle(object, {"beta1", "tau"}, !plain, "the servers fedadagrad, fedadam and fedyogi");
  check_idle(object, {"beta2"}, !plain && server != "fedadagrad", "the servers fedadam and fedyogi");
  ServerSync sync{.shards = values.integer("clients"),
                  .servers = values.integer("servers"),
                  .half = values.text("wire") == "fp16",
                  .federated = FederatedRounds{.fraction = values.number("fraction"),
                                               .local_epochs = values.integer("local_epochs"),
                                               .update = {.server = server,
                                                          .rate = values.number("server_lr"),
                                                          .momentum = values.number("server_momentum"),
                                                          .beta1 = values.number("beta1"),
                                                          .beta2 = values.number("beta2"),
                                                          .tau = values.number("tau")},
                                               .proximal = values.number("proximal")}};
  sync.rule = read_rule(object, sync.shards_a_round());
  sync.combine = read_combine(object, sync);
  read_partial(object, sync);
  return sync;
}

// The node of the job that is nearest to `section`.`field`: a default is not written anywhere.
const JsonNode& place_of_field(const JsonNode& tree, std::initializer_list<std::string_view> path) {
  const JsonNode* at = &tree;
  for (const std::string_view part : path) {
    const JsonNode* next = at->is_object() ? at->find(part) : nullptr;
    if (next == nullptr) break;
    at = next;
  }
  return *at;
}

void check_optimizer(const Job& job, const JsonNode& tree) {
  const OptimizerArgs& args = job.train.optimizer;
  const bool local = job.plan.servers->federated.has_value();  // clients hold whole models, and update them themselves
  if (local) return;
  if (const OptimizerType& type = optimizer_type(args.kind); type.needs_parameter_norms)
    fail_at(place_of_field(tree, {"train", "optimizer", "type"}),
            "{} needs the norm of whole parameters, of which a parameter server sees slices: use another optimizer",
            type.name);
  if (args.clip_norm > 0)
    fail_at(place_of_field(tree, {"train", "clip_norm"}),
            "clip_norm needs the norm of all gradients, of which a parameter server sees slices: set it to 0");
  if (job.train.precision == DType::f16)
    fail_at(place_of_field(tree, {"train", "precision"}),
            "fp16's loss scale needs to know of every gradient of an update whether it is finite, and a parameter "
            "server sees slices: use \"bf16\" or \"fp32\"");
}

void fit_batch(Job& job, const JsonNode& tree) {
  const ServerSync& servers = *job.plan.servers;
  const std::int64_t workers = servers.federated ? 1 : servers.shards;  // clients take whole batches of their own
  if (job.train.batch % workers != 0) {
    const std::int64_t less = job.train.batch / workers * workers;
    fail_at(place_of_field(tree, {"train", "batch"}), "a batch of {} does not divide among {} workers; {}{} would work",
            job.train.batch, workers, less > 0 ? fmt::format("{} or ", less) : "", less + workers);
  }
  const std::int64_t share = job.train.batch / workers;
  if (share % job.train.accumulate != 0)
    fail_at(place_of_field(tree, {"train", "accumulate"}), "'accumulate' {} does not divide a worker's {} samples",
            job.train.accumulate, share);
  const JsonNode* train = tree.find("train");
  if (train == nullptr || train->find("bn_group") == nullptr)
    job.train.bn_group = std::max<std::int64_t>(1, share / job.train.accumulate);
  const bool has_batch_norm =
      std::ranges::any_of(job.model.layers, [](const LayerSpec& layer) { return layer.type == "batch_norm"; });
  if (has_batch_norm && share / job.train.accumulate % job.train.bn_group != 0)
    fail_at(place_of_field(tree, {"train", "bn_group"}),
            "batch norm takes samples of one worker together: 'bn_group' {} does not divide the {} of its micro-batch",
            job.train.bn_group, share / job.train.accumulate);
}

}  // namespace

ObjectType ps_sync_type() {
  ObjectType type{
      .type = "ps",
      .noun = "a ps sync",
      .help = "workers push gradients to parameter servers, which update, and pull the parameters",
      .fields = {
          {.name = "mode",
           .kind = FieldKind::choice,
           .fallback = std::string("sync"),
           .choices = {"sync", "async", "ssp"},
           .help = "sync: the workers' pushes are one update; async: every push is one; ssp: the "
                   "same, and no worker runs more than 'staleness' steps ahead"},
          {.name = "staleness",
           .fallback = std::int64_t{2},
           .minimum = 0,
           .help = "ssp: steps that a worker may be ahead of the slowest"},
          {.name = "workers",
           .fallback = std::int64_t{1},
           .minimum = 1,
           .maximum = kMostShards,
           .help = "shards of the data; each is worked on by one process at a time"},
          servers_field(),
          {.name = "backup",
           .fallback = std::int64_t{0},
           .minimum = 0,
           .help = "sync: workers, the slowest of a step, that are not waited for"},
          {.name = "period", .fallback = std::int64_t{1}, .minimum = 1, .help = "steps of a worker between two pushes"},
          wire_field(),
          {.name = "keep",
           .kind = FieldKind::number,
           .fallback = 1.0,
           .minimum = 1e-6,
           .maximum = 1,
           .help = "share of a gradient that is pushed, the largest; the rest is pushed later"},
          combine_field()}};
  for (Field& field : partial_fields()) type.fields.push_back(std::move(field));
  for (Field& field : rule_fields("mean")) type.fields.push_back(std::move(field));
  return type;
}

ObjectType federated_sync_type() {
  const FederatedArgs defaults;
  const auto number = [](const char* name, double fallback, double least, std::optional<double> most,
                         const char* help) {
    return Field{
        .name = name, .kind = FieldKind::number, .fallback = fallback, .minimum = least, .maximum = most, .help = help};
  };
  ObjectType type{
      .type = "federated",
      .noun = "a federated sync",
      .help =
          "in every round clients train on data of their own, and servers average how their models changed; "
          "train.epochs counts rounds, train.batch is a client's",
      .fields = {{.name = "clients",
                  .fallback = std::int64_t{10},
                  .minimum = 1,
                  .maximum = kMostShards,
                  .help = "each with its own part of the data"},
                 number("fraction", 1, 1e-6, 1, "of the clients, drawn anew for every round"),
                 {.name = "local_epochs",
                  .fallback = std::int64_t{1},
                  .minimum = 1,
                  .help = "over a client's own data, a round"},
                 servers_field(),
                 wire_field(),
                 combine_field(),
                 {.name = "server",
                  .kind = FieldKind::choice,
                  .fallback = defaults.server,
                  .choices = {"fedavg", "fedadagrad", "fedadam", "fedyogi"},
                  .help = "what servers do with the clients' change"},
                 number("server_lr", defaults.rate, 0, std::nullopt, "factor of the clients' change"),
                 number("server_momentum", defaults.momentum, 0, 0.9999, "fedavg: of the clients' change"),
                 number("beta1", defaults.beta1, 0, 0.999999, "of the mean of changes"),
                 number("beta2", defaults.beta2, 0, 0.999999, "of the mean of their squares"),
                 number("tau", defaults.tau, 1e-12, std::nullopt, "keeps small squares from counting too much"),
                 number("proximal", 0, 0, std::nullopt, "FedProx's mu: pulls clients back to where they started")}};
  for (Field& field : partial_fields()) type.fields.push_back(std::move(field));
  for (Field& field : rule_fields("weighted_mean")) type.fields.push_back(std::move(field));
  return type;
}

bool is_server_sync(const std::string& type) {
  return type == "ps" || type == "federated";
}

ServerSync read_server_sync(const ObjectValues& sync) {
  return sync.type == "federated" ? read_federated(sync) : read_ps(sync);
}

void settle_division(Job& job, const JsonNode& tree) {
  const JsonNode* shard = tree.find("data")->find("shard");
  DivisionKind& kind = job.data.division.kind;
  if (!job.plan.servers) {
    // The old name of what replicas do.
    if (kind == DivisionKind::index) kind = DivisionKind::batch;
    if (kind != DivisionKind::batch)
      fail_at(*shard,
              "replicas take their shares of every batch, and \"{}\" is for workers of parameter servers: set it to "
              "\"batch\", or plan.sync to one of type \"ps\" or \"federated\"",
              name_of(kind));
  } else if (job.plan.servers->federated && kind == DivisionKind::batch) {
    if (shard != nullptr)
      fail_at(*shard,
              "federated clients have data of their own: use \"kfold\", \"dirichlet\", \"index\", \"rank\" or "
              "\"time\"");
    kind = DivisionKind::kfold;
  }
}

void check_node_rules(const Job& job, const JsonNode& tree) {
  const StopRules& stop = job.train.stop;
  const auto place = [&](const char* rule) -> const JsonNode& { return place_of_field(tree, {"train", "stop", rule}); };
  if (stop.each_node && stop.loss_delta == 0)
    fail_at(place("each_node"), "'each_node' asks 'loss_delta' of every worker: give that too, or leave it out");
  if (stop.each_node && !job.plan.servers)
    fail_at(place("each_node"),
            "there are no workers with losses of their own: leave it out, or set plan.sync to one of type \"ps\" or "
            "\"federated\"");
  for (const auto& [rule, limit] :
       {std::pair{"model_distance", stop.model_distance}, std::pair{"output_kl", stop.output_kl}}) {
    if (limit == 0) continue;
    if (!job.plan.servers)
      fail_at(place(rule),
              "there are no workers with models of their own: leave it out, or set plan.sync to one of type \"ps\" or "
              "\"federated\"");
    if (!job.plan.servers->nodes_differ())
      fail_at(place(rule),
              "workers that push the gradients of every step have one model, and cannot differ: leave it out, or set "
              "plan.sync.period above 1, or plan.sync.mode to \"async\" or \"ssp\"");
  }
  if (stop.output_kl > 0 && !job.model.layers.empty() &&
      find_layer_type(job.model.layers.back().type)->make(job.model.layers.back().values)->needs_targets())
    fail_at(place("output_kl"), "a model that ends in {} has no probabilities of classes: use model_distance",
            job.model.layers.back().type);
}

void fit_to_servers(Job& job, const JsonNode& tree) {
  if (job.plan.zero > 0)
    fail_at(place_of_field(tree, {"plan", "zero"}),
            "workers of parameter servers hold whole models each, and share nothing out: set 'zero' to 0");
  if (pipeline_schedule(job.plan.schedule).updates_every_micro_batch)
    fail_at(place_of_field(tree, {"plan", "schedule"}),
            "{} updates on its own after every micro-batch, where parameter servers are to: use another",
            job.plan.schedule);
  check_optimizer(job, tree);
  fit_batch(job, tree);
}

}  // namespace trifold
