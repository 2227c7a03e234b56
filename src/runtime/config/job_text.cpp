// Writes the resolved job. What the sections read, this writes: a test loads the text again and compares.
#include <charconv>

#include <nlohmann/json.hpp>

#include "runtime/config/job.h"
#include "runtime/config/optimizer_types.h"

namespace trifold {
namespace {

using Json = nlohmann::ordered_json;

// The double with the same shortest decimal form, so that 0.1f is written 0.1.
double shortest(float value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double result = 0;
  std::from_chars(text, written.ptr, result);
  return result;
}

Json to_json(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(shortest(value));
  return list;
}

Json to_json(const FieldValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Json model_json(const NetworkSpec& model) {
  Json json;
  json["input"] = {model.input[0], model.input[1], model.input[2]};
  json["classes"] = model.classes;
  json["layers"] = Json::array();
  for (const LayerSpec& layer : model.layers) {
    Json entry;
    entry["id"] = layer.id;
    entry["type"] = layer.type;
    entry["in"] = layer.in.size() == 1 ? Json(layer.in.front()) : Json(layer.in);
    for (const auto& [name, value] : layer.values.all()) entry[name] = to_json(value);
    json["layers"].push_back(std::move(entry));
  }
  return json;
}

Json augment_json(const Augmentation& step) {
  if (const auto* crop = std::get_if<RandomCrop>(&step)) return {{"type", "random_crop"}, {"pad", crop->padding_px}};
  if (const auto* flip = std::get_if<HorizontalFlip>(&step))
    return {{"type", "flip"}, {"probability", shortest(flip->probability)}};
  return {{"type", "cutout"}, {"size", std::get<Cutout>(step).side_px}};
}

Json data_json(const DataConfig& data) {
  const DataSource& source = data.source;
  Json json;
  json["type"] = source.type;
  for (const Field& field : data_source_type(source.type).fields)
    if (source.values.has(field.name)) json[field.name] = to_json(source.values.all().find(field.name)->second);
  json["normalize"] = {{"mean", to_json(data.normalize.mean)}, {"std", to_json(data.normalize.std)}};
  json["augment"] = Json::array();
  for (const Augmentation& step : data.augment) json["augment"].push_back(augment_json(step));
  json["sampler"] = name_of(data.sampler);
  switch (data.class_weighting) {
    case ClassWeighting::none:
      json["class_weights"] = "none";
      break;
    case ClassWeighting::balanced:
      json["class_weights"] = "balanced";
      break;
    case ClassWeighting::listed:
      json["class_weights"] = data.class_weights;
      break;
  }
  json["shard"] = name_of(data.division.kind);
  if (data.division.kind == DivisionKind::dirichlet) json["shard_alpha"] = data.division.alpha;
  json["threads"] = data.threads;
  json["augment_on"] = name_of(data.augment_on);
  return json;
}

Json optimizer_json(const TrainConfig& train) {
  const OptimizerType& type = optimizer_type(train.optimizer.kind);
  Json json;
  json["type"] = type.name;
  json["lr"] = train.schedule.base_rate;
  for (const OptimizerField& field : type.fields) json[field.field.name] = to_json(value_of(field, train.optimizer));
  json["decay_bias"] = train.decay_bias;
  return json;
}

Json schedule_json(const LearningSchedule& schedule) {
  Json json;
  json["type"] = name_of(schedule.kind);
  if (schedule.kind == ScheduleKind::step) {
    if (schedule.every_epochs > 0)
      json["every"] = schedule.every_epochs;
    else
      json["milestones"] = schedule.milestones;
    json["gamma"] = schedule.gamma;
  }
  if (schedule.kind == ScheduleKind::polynomial) json["power"] = schedule.power;
  if (schedule.kind == ScheduleKind::polynomial || schedule.kind == ScheduleKind::cosine)
    json["final_lr"] = schedule.final_rate;
  json["warmup_epochs"] = schedule.warmup_epochs;
  json["warmup_steps"] = schedule.warmup_steps;
  return json;
}

Json train_json(const TrainConfig& train) {
  Json json;
  json["epochs"] = train.epochs;
  json["batch"] = train.batch;
  json["accumulate"] = train.accumulate;
  json["bn_group"] = train.bn_group;
  json["seed"] = train.seed;
  json["precision"] = precision_name(train.precision);
  json["loss_scale"] = {{"initial", train.loss_scaling.initial},
                        {"growth_interval", train.loss_scaling.growth_interval}};
  json["kernel"] = train.own_kernels ? "own" : "library";
  json["graphs"] = train.graphs;
  json["math"] = name_of(train.math);
  json["recompute"] = name_of(train.recompute);
  json["optimizer"] = optimizer_json(train);
  json["schedule"] = schedule_json(train.schedule);
  json["clip_norm"] = train.optimizer.clip_norm;
  json["stop"] = {{"loss_delta", train.stop.loss_delta},
                  {"patience", train.stop.patience},
                  {"target_accuracy", train.stop.target_accuracy},
                  {"minutes", train.stop.minutes},
                  {"model_distance", train.stop.model_distance},
                  {"output_kl", train.stop.output_kl},
                  {"each_node", train.stop.each_node}};
  json["eval_every"] = train.eval_every;
  json["checkpoint"] = {{"every_epochs", train.checkpoint.every_epochs},
                        {"every_steps", train.checkpoint.every_steps},
                        {"keep", train.checkpoint.keep},
                        {"shard_bytes", train.checkpoint.shard_bytes}};
  json["tensorboard"] = {{"histograms", train.tensorboard.histograms}};
  json["memory_limit"] = train.memory_limit_bytes;
  json["threads"] = train.threads;
  return json;
}

Json rule_json(const AggregationArgs& rule) {
  Json json = {{"rule", rule.rule}};
  if (rule.rule == "trimmed_mean") json["trim"] = rule.trim;
  if (rule.rule == "krum") json["byzantine"] = rule.byzantine;
  return json;
}

Json partial_json(const ServerSync& sync) {
  return {{"layers", sync.layers}, {"rotate", sync.rotate}};
}

Json federated_json(const ServerSync& sync) {
  const FederatedRounds& rounds = *sync.federated;
  const FederatedArgs& update = rounds.update;
  Json json = {{"type", "federated"},         {"clients", sync.shards},
               {"fraction", rounds.fraction}, {"local_epochs", rounds.local_epochs},
               {"servers", sync.servers},     {"wire", sync.half ? "fp16" : "fp32"},
               {"server", update.server},     {"server_lr", update.rate},
               {"proximal", rounds.proximal}, {"combine", sync.combine ? "host" : "none"}};
  if (update.server == "fedavg") {
    json["server_momentum"] = update.momentum;
  } else {
    json["beta1"] = update.beta1;
    if (update.server != "fedadagrad") json["beta2"] = update.beta2;
    json["tau"] = update.tau;
  }
  json.update(partial_json(sync));
  json.update(rule_json(sync.rule));
  return json;
}

Json servers_json(const ServerSync& sync) {
  if (sync.federated) return federated_json(sync);
  Json json = {{"type", "ps"},           {"mode", name_of(sync.consistency)},
               {"workers", sync.shards}, {"servers", sync.servers},
               {"period", sync.period},  {"wire", sync.half ? "fp16" : "fp32"},
               {"keep", sync.keep},      {"combine", sync.combine ? "host" : "none"}};
  if (sync.consistency == Consistency::ssp) json["staleness"] = sync.staleness;
  if (sync.consistency == Consistency::sync) json["backup"] = sync.backup;
  json.update(partial_json(sync));
  json.update(rule_json(sync.rule));
  return json;
}

Json sync_json(const PlanConfig& plan) {
  const GradientSync& sync = plan.sync;
  switch (sync.kind) {
    case GradientSync::Kind::allreduce:
      return {{"type", "allreduce"}, {"wire", precision_name(sync.wire)}};
    case GradientSync::Kind::topk:
      return {{"type", "topk"}, {"keep", sync.keep}};
    case GradientSync::Kind::powersgd:
      return {{"type", "powersgd"}, {"rank", sync.rank}};
    case GradientSync::Kind::local_sgd:
      return {{"type", "local_sgd"}, {"period", sync.period}};
    case GradientSync::Kind::servers:
      return servers_json(plan.servers.value());
  }
  TRIFOLD_CHECK(false, "no such sync");
}

Json plan_json(const PlanConfig& plan) {
  Json json;
  json["device"] = plan.device;
  json["dp"] = plan.dp;
  json["tp"] = plan.tp;
  json["pp"] = plan.pp;
  json["schedule"] = plan.schedule;
  json["micro_batches"] = plan.micro_batches;
  json["chunks"] = plan.chunks;
  json["stages"] = !plan.stages.empty() ? Json(plan.stages) : Json(plan.measures_stages ? "measured" : "auto");
  json["cut_after"] = plan.cut_after;
  json["recompute"] =
      !plan.recompute.stages.empty() ? Json(plan.recompute.stages) : Json(plan.recompute.all ? "all" : "none");
  json["split"] = Json::array();
  for (const TensorSplit& split : plan.split) json["split"].push_back({{"match", split.match}, {"by", split.by}});
  json["zero"] = plan.zero;
  json["bucket"] = plan.bucket_bytes;
  json["sync"] = sync_json(plan);
  return json;
}

}  // namespace

std::string to_json_text(const Job& job) {
  Json json;
  json["name"] = job.name;
  json["model"] = model_json(job.model);
  json["data"] = data_json(job.data);
  json["train"] = train_json(job.train);
  json["plan"] = plan_json(job.plan);
  return json.dump(2) + "\n";
}

}  // namespace trifold
