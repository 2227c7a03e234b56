#include "runtime/config/train_section.h"

#include <algorithm>
#include <tuple>

#include "runtime/config/field_forms.h"
#include "runtime/config/optimizer_types.h"
#include "runtime/config/validate.h"

namespace trifold {
namespace {

constexpr double kMostThreads = 4096;

Field count(const char* name, std::int64_t fallback, double minimum, const char* help) {
  return {.name = name, .fallback = fallback, .minimum = minimum, .help = help};
}

NestedType optimizer_section() {
  NestedType section{
      .name = "optimizer", .help = "how gradients change the weights", .fallback_type = "sgd", .types = {}};
  for (const OptimizerType& type : optimizer_types())
    section.types.push_back({.type = type.name, .noun = type.noun, .fields = fields_of(type)});
  return section;
}

NestedType schedule_type() {
  const Field warmup_epochs = number_field("warmup_epochs", 0, 0, {}, "the rate rises from 0 over this many epochs");
  const Field warmup_steps = count("warmup_steps", 0, 0, "the same in steps");
  const Field final_rate = number_field("final_lr", 0, 0, {}, "after the last step");
  return {
      .name = "schedule",
      .help = "how the learning rate changes",
      .fallback_type = "constant",
      .types = {{.type = "constant", .noun = "a constant schedule", .fields = {warmup_epochs, warmup_steps}},
                {.type = "step",
                 .noun = "a step schedule",
                 .fields = {{.name = "every",
                             .kind = FieldKind::number,
                             .optional = true,
                             .minimum = 1e-6,
                             .help = "epochs between two cuts"},
                            {.name = "milestones",
                             .kind = FieldKind::numbers,
                             .optional = true,
                             .minimum = 0,
                             .help = "epochs at which the rate is cut"},
                            number_field("gamma", 0.1, 0, {}, "factor of a cut"),
                            warmup_epochs,
                            warmup_steps}},
                {.type = "cosine", .noun = "a cosine schedule", .fields = {final_rate, warmup_epochs, warmup_steps}},
                {.type = "polynomial",
                 .noun = "a polynomial schedule",
                 .fields = {number_field("power", 1, 0, {}, "1: a straight line"), final_rate, warmup_epochs,
                            warmup_steps}}}};
}

NestedType stop_type() {
  return {.name = "stop",
          .help = "rules that end a run early; 0 switches one off",
          .types = {{.noun = "'stop'",
                     .fields = {
                         number_field("loss_delta", 0, 0, {}, "the loss of an epoch changes by less than this"),
                         count("patience", 0, 0, "epochs without an improvement"),
                         number_field("target_accuracy", 0, 0, 1, "of the test set, 0 to 1"),
                         number_field("minutes", 0, 0, {}, "of training"),
                         number_field("model_distance", 0, 0, {},
                                      "federated, period, async, ssp: no worker's weights are farther than this from "
                                      "the servers', by the servers' norm, at the end of an epoch"),
                         number_field("output_kl", 0, 0, {},
                                      "likewise: KL divergence of a worker's outputs from those of the servers' model, "
                                      "mean over the first batch of the test set"),
                         switch_field("each_node",
                                      "with parameter servers: loss_delta is asked of every worker's own loss, and "
                                      "the run ends when each has had it")}}}};
}

NestedType checkpoint_type() {
  return {.name = "checkpoint",
          .help = "when the state is saved, besides at the end",
          .types = {{.noun = "'checkpoint'",
                     .fields = {{.name = "every_epochs", .optional = true, .minimum = 0, .help = "default: 1"},
                                {.name = "every_steps", .optional = true, .minimum = 0, .help = "in place of epochs"},
                                count("keep", 2, 1, "the newest so many stay"),
                                {.name = "shard_bytes",
                                 .fallback = CheckpointRules{}.shard_bytes,
                                 .minimum = 1,
                                 .help = "a larger one is several files and an index; bytes, or a text like \"2GiB\""}},
                     .second_forms = {{"shard_bytes", {.name = "shard_bytes", .kind = FieldKind::text}}}}}};
}

NestedType tensorboard_type() {
  return {.name = "tensorboard",
          .help = "what TensorBoard shows besides curves and the misclassified images",
          .types = {{.noun = "'tensorboard'",
                     .fields = {{.name = "histograms",
                                 .kind = FieldKind::boolean,
                                 .fallback = true,
                                 .help = "of every parameter's weights and gradients, at the end of each epoch; needs "
                                         "for that moment about as much memory as a checkpoint without the "
                                         "optimizer's state"}}}}};
}

LearningSchedule read_schedule(const ObjectValues& schedule, const JsonNode& section) {
  LearningSchedule result;
  const FieldValues& values = schedule.values;
  for (const ScheduleKind kind :
       {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine, ScheduleKind::polynomial})
    if (schedule.type == name_of(kind)) result.kind = kind;
  result.warmup_epochs = values.number("warmup_epochs");
  result.warmup_steps = values.integer("warmup_steps");
  if (result.warmup_epochs > 0 && result.warmup_steps > 0)
    fail_field(schedule, "warmup_steps", section, "give 'warmup_epochs' or 'warmup_steps', not both");
  if (values.has("final_lr")) result.final_rate = values.number("final_lr");
  if (values.has("power")) result.power = values.number("power");
  if (result.kind == ScheduleKind::step) {
    result.gamma = values.number("gamma");
    if (values.has("every") == values.has("milestones"))
      fail_field(schedule, "milestones", section, "a step schedule needs either 'every' or 'milestones'");
    if (values.has("every")) result.every_epochs = values.number("every");
    if (values.has("milestones")) result.milestones = values.numbers("milestones");
    if (!std::is_sorted(result.milestones.begin(), result.milestones.end()))
      fail_field(schedule, "milestones", section, "the milestones must rise");
  }
  return result;
}

StopRules read_stop(const FieldValues& values) {
  return {.loss_delta = values.number("loss_delta"),
          .patience = values.integer("patience"),
          .target_accuracy = values.number("target_accuracy"),
          .minutes = values.number("minutes"),
          .model_distance = values.number("model_distance"),
          .output_kl = values.number("output_kl"),
          .each_node = values.boolean("each_node")};
}

CheckpointRules read_checkpoint(const ObjectValues& object, const JsonNode& section) {
  const FieldValues& values = object.values;
  CheckpointRules rules;
  if (values.has("every_steps")) rules.every_steps = values.integer("every_steps");
  rules.every_epochs = values.has("every_epochs") ? values.integer("every_epochs") : rules.every_steps > 0 ? 0 : 1;
  if (rules.every_epochs > 0 && rules.every_steps > 0)
    fail_field(object, "every_steps", section, "give 'every_epochs' or 'every_steps', not both");
  rules.keep = values.integer("keep");
  rules.shard_bytes = read_bytes(object, "shard_bytes", section);
  if (rules.shard_bytes < 1) fail_field(object, "shard_bytes", section, "expected at least 1 byte");
  return rules;
}

NestedType loss_scale_type() {
  const LossScaling defaults;
  return {.name = "loss_scale",
          .help = "of training in fp16: gradients are computed of the loss times a scale that adapts itself",
          .types = {{.noun = "'loss_scale'",
                     .fields = {number_field("initial", defaults.initial, 1, defaults.largest, "at the first step"),
                                count("growth_interval", defaults.growth_interval, 1,
                                      "updates without overflow after which it doubles")}}}};
}

void check_batch(const ObjectValues& train, const TrainConfig& config, const JsonNode& section) {
  if (config.batch % config.accumulate != 0)
    fail_field(train, "accumulate", section, "'accumulate' {} does not divide the batch of {}", config.accumulate,
               config.batch);
  if (config.micro_batch() % config.bn_group != 0)
    fail_field(train, "bn_group", section,
               "'bn_group' {} does not divide the {} samples of a micro-batch (batch {} / accumulate {})",
               config.bn_group, config.micro_batch(), config.batch, config.accumulate);
}

Recompute read_recompute(const std::string& name) {
  for (const Recompute which : {Recompute::never, Recompute::always})
    if (name == name_of(which)) return which;
  return Recompute::cheap;
}

bool same_optimizer(const OptimizerArgs& a, const OptimizerArgs& b) {
  return a.kind == b.kind && a.clip_norm == b.clip_norm &&
         std::ranges::all_of(optimizer_type(a.kind).fields,
                             [&](const OptimizerField& field) { return value_of(field, a) == value_of(field, b); });
}

}  // namespace

const NestedType& train_section() {
  static const NestedType type = {
      .name = "train",
      .help = "how the network is trained",
      .types = {{.noun = "the train section",
                 .fields = {count("epochs", 10, 1, "passes over the training set"),
                            count("batch", 64, 1, "samples an update, over all devices"),
                            count("accumulate", 1, 1, "micro-batches that an update is made of; divides batch"),
                            {.name = "bn_group",
                             .optional = true,
                             .minimum = 1,
                             .help = "samples whose statistics batch norm takes together; default: batch / accumulate"},
                            count("seed", 1, 0, "of weights, shuffling, dropout and augmentation"),
                            {.name = "precision",
                             .kind = FieldKind::choice,
                             .fallback = std::string("fp32"),
                             .choices = {"fp32", "fp16", "bf16"},
                             .help = "of activations, their gradients and the weights that products read; parameters, "
                                     "losses, statistics and sums stay in fp32"},
                            {.name = "math",
                             .kind = FieldKind::choice,
                             .fallback = std::string("fast"),
                             .choices = {"fast", "strict"},
                             .help = "strict: no algorithm that loses accuracy (Winograd)"},
                            {.name = "recompute",
                             .kind = FieldKind::choice,
                             .fallback = std::string("cheap"),
                             .choices = {"never", "cheap", "always"},
                             .help = "activations that one pass makes again in backward instead of being kept: none, "
                                     "those where it takes next to no time, all"},
                            {.name = "kernel",
                             .kind = FieldKind::choice,
                             .fallback = std::string("library"),
                             .choices = {"library", "own"},
                             .help = "convolutions on a GPU: cuDNN's, or Trifold's own"},
                            {.name = "graphs",
                             .kind = FieldKind::boolean,
                             .fallback = true,
                             .help = "a GPU's step is recorded once and replayed (CUDA graphs)"},
                            number_field("clip_norm", 0, 0, {}, "gradients are scaled down to this norm; 0: not"),
                            count("eval_every", 1, 1, "epochs between two evaluations"),
                            {.name = "memory_limit",
                             .fallback = std::int64_t{0},
                             .minimum = 0,
                             .help = "bytes, or a text like \"8GB\" or \"512MiB\"; 0: what the machine has"},
                            {.name = "threads",
                             .fallback = std::int64_t{0},
                             .minimum = 0,
                             .maximum = kMostThreads,
                             .help = "0: one a core"}},
                 .second_forms = {{"memory_limit", {.name = "memory_limit", .kind = FieldKind::text}}},
                 .nested = {optimizer_section(), schedule_type(), stop_type(), checkpoint_type(), tensorboard_type(),
                            loss_scale_type()}}}};
  return type;
}

TrainConfig read_train(const JsonNode* section, const JsonNode& job) {
  const ObjectValues train = read_object(section, train_section());
  const JsonNode& place = section != nullptr ? *section : job;
  const FieldValues& values = train.values;
  const ObjectValues& optimizer = train.object("optimizer");

  TrainConfig config;
  config.epochs = values.integer("epochs");
  config.batch = values.integer("batch");
  config.accumulate = values.integer("accumulate");
  config.bn_group =
      values.has("bn_group") ? values.integer("bn_group") : std::max<std::int64_t>(1, config.micro_batch());
  config.seed = static_cast<std::uint64_t>(values.integer("seed"));
  config.precision = *parse_precision(values.text("precision"));
  config.loss_scaling.initial = train.object("loss_scale").values.number("initial");
  config.loss_scaling.growth_interval = train.object("loss_scale").values.integer("growth_interval");
  config.own_kernels = values.text("kernel") == "own";
  config.graphs = values.boolean("graphs");
  config.math = values.text("math") == "strict" ? Math::strict : Math::fast;
  config.recompute = read_recompute(values.text("recompute"));
  config.optimizer = optimizer_args(optimizer_type(optimizer.type), optimizer.values);
  config.optimizer.clip_norm = values.number("clip_norm");
  config.decay_bias = optimizer.values.boolean("decay_bias");
  config.schedule = read_schedule(train.object("schedule"), place);
  config.schedule.base_rate = optimizer.values.number("lr");
  config.stop = read_stop(train.object("stop").values);
  config.eval_every = values.integer("eval_every");
  config.checkpoint = read_checkpoint(train.object("checkpoint"), place);
  config.tensorboard.histograms = train.object("tensorboard").values.boolean("histograms");
  config.memory_limit_bytes = read_bytes(train, "memory_limit", place);
  config.threads = static_cast<int>(values.integer("threads"));
  check_batch(train, config, place);
  if (config.optimizer.nesterov && config.optimizer.momentum == 0)
    fail_field(optimizer, "nesterov", place, "'nesterov' needs a 'momentum' above 0");
  return config;
}

bool operator==(const TrainConfig& a, const TrainConfig& b) {
  const auto others = [](const TrainConfig& config) {
    return std::tie(config.epochs, config.batch, config.accumulate, config.bn_group, config.seed, config.precision,
                    config.loss_scaling, config.own_kernels, config.graphs, config.math, config.recompute,
                    config.decay_bias, config.schedule, config.stop, config.eval_every, config.checkpoint,
                    config.tensorboard, config.memory_limit_bytes, config.threads);
  };
  return same_optimizer(a.optimizer, b.optimizer) && others(a) == others(b);
}

const char* name_of(Math math) {
  return math == Math::strict ? "strict" : "fast";
}

}  // namespace trifold
