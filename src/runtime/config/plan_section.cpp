#include "runtime/config/plan_section.h"

#include <algorithm>
#include <cmath>

#include "runtime/config/server_section.h"
#include "runtime/config/validate.h"

namespace trifold {
namespace {

Field axis(const char* name, std::string help) {
  return {.name = name, .fallback = std::int64_t{1}, .minimum = 1, .help = std::move(help)};
}

bool is_device_name(const std::string& name) {
  if (name == "auto" || name == "cpu" || name == "cuda") return true;
  const auto after = [&](std::string_view start) {
    return name.starts_with(start) ? std::string_view(name).substr(start.size()) : std::string_view();
  };
  for (const std::string_view digits : {after("cpu:"), after("cuda:"), after("cuda#")})
    if (!digits.empty() && digits.size() <= 3 &&
        std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
      return true;
  return false;
}

// cpu:N and cuda:N are N ranks, which the mesh must be; cuda#I is one GPU.
void check_ranks(const ObjectValues& object, const PlanConfig& plan) {
  const std::size_t mark = plan.device.find_first_of(":#");
  if (mark == std::string::npos) return;
  const bool one_gpu = plan.device[mark] == '#';
  const std::int64_t ranks = one_gpu ? 1 : std::stoll(plan.device.substr(mark + 1));
  const std::int64_t mesh = plan.dp * plan.tp * plan.pp;
  const std::string kind = plan.device.substr(0, mark);
  if (ranks != mesh)
    fail_field(object, "device", *object.node,
               "\"{}\" is {} rank{}, but dp {} x tp {} x pp {} is {}; \"{}:{}\" or \"{}\" would work, or dp={}",
               plan.device, ranks, ranks == 1 ? "" : "s", plan.dp, plan.tp, plan.pp, mesh, kind, mesh, kind,
               std::max<std::int64_t>(ranks, 1));
}

GradientSync read_sync(const ObjectValues& sync) {
  if (sync.type == "allreduce")
    return {.kind = GradientSync::Kind::allreduce, .wire = *parse_precision(sync.values.text("wire"))};
  if (sync.type == "topk") return {.kind = GradientSync::Kind::topk, .keep = sync.values.number("keep")};
  if (sync.type == "powersgd") return {.kind = GradientSync::Kind::powersgd, .rank = sync.values.integer("rank")};
  if (is_server_sync(sync.type)) return {.kind = GradientSync::Kind::servers};
  return {.kind = GradientSync::Kind::local_sgd, .period = sync.values.integer("period")};
}

void check_zero(const ObjectValues& object, const PlanConfig& plan) {
  if (plan.zero > 0 && !plan.sync.exact() && plan.sync.kind != GradientSync::Kind::servers)
    fail_field(object, "zero", *object.node,
               "replicas that shard add up all gradients in every step, as {{\"type\": \"allreduce\"}} does: leave "
               "'sync' out, or set 'zero' to 0");
}

StageRecompute read_recompute(const ObjectValues& object, std::int64_t stages) {
  const FieldValue& value = object.values.all().find("recompute")->second;
  const auto* listed = std::get_if<std::vector<double>>(&value);
  if (listed == nullptr) return {.all = object.values.text("recompute") == "all"};
  StageRecompute recompute;
  for (const double stage : *listed) {
    if (stage != std::floor(stage) || stage >= static_cast<double>(stages))
      fail_field(object, "recompute", *object.node, "there is no stage {:g}: plan.pp is {}, and the first is 0", stage,
                 stages);
    recompute.stages.push_back(static_cast<std::int64_t>(stage));
  }
  return recompute;
}

}  // namespace

const NestedType& plan_section() {
  static const NestedType type =
      {.name = "plan",
       .help = "how the work is divided over devices",
       .types =
           {{.noun = "the plan section",
             .fields =
                 {{.name = "device",
                   .kind = FieldKind::text,
                   .fallback = std::string("auto"),
                   .help =
                       "cpu, cpu:4 for four ranks, cuda, cuda:2 for two GPUs, cuda#1 for the second GPU alone; auto: "
                       "GPUs where there are any, else the CPU"},
                  axis("dp", "data replicas"),
                  axis("tp", "devices that share each layer"),
                  axis("pp", "pipeline stages"),
                  {.name = "schedule",
                   .kind = FieldKind::choice,
                   .fallback = std::string(kDefaultSchedule),
                   .choices = pipeline_schedule_names(),
                   .help = "order of work in a pipeline"},
                  axis("micro_batches", "parts of a batch that flow through the pipeline"),
                  axis("chunks", fmt::format("runs of layers a stage has, with the {} schedule",
                                             fmt::join(chunked_schedule_names(), " or "))),
                  {.name = "stages",
                   .kind = FieldKind::choice,
                   .fallback = std::string("auto"),
                   .choices = {"auto", "measured"},
                   .help = "auto: balanced by what layers cost by estimate; measured: by what they cost here; or how "
                           "many layers each stage has"},
                  {.name = "cut_after",
                   .kind = FieldKind::texts,
                   .fallback = std::vector<std::string>{},
                   .help = "ids of the layers that end a stage, instead of stages"},
                  {.name = "recompute",
                   .kind = FieldKind::choice,
                   .fallback = std::string("none"),
                   .choices = {"none", "all"},
                   .help = "stages that keep only what they received, and repeat their forward work before their "
                           "backward work: all: those that hold more than one micro-batch at a time (the last of 1f1b "
                           "does not: it would save nothing); or a list of stages, from 0"},
                  {.name = "zero",
                   .fallback = std::int64_t{0},
                   .minimum = 0,
                   .maximum = 3,
                   .help = "what replicas shard: 1 optimiser state, 2 gradients too, 3 parameters too"},
                  {.name = "bucket",
                   .fallback = std::int64_t{0},
                   .minimum = 0,
                   .help = "of gradients and parameters that replicas exchange as one piece: bytes, or a text like "
                           "\"25MB\"; 0: chosen"}},
             .second_forms =
                 {{"stages", {.name = "stages", .kind = FieldKind::numbers, .minimum = 1, .maximum = 65536}},
                  {"recompute", {.name = "recompute", .kind = FieldKind::numbers, .minimum = 0, .maximum = 65536}},
                  {"bucket", {.name = "bucket", .kind = FieldKind::text}}},
             .nested = {{.name = "split",
                         .help = "layers that tensor parallelism divides",
                         .list = true,
                         .types = {{.noun = "a split",
                                    .fields = {{.name = "match",
                                                .kind = FieldKind::text,
                                                .help = "ids of layers, * for any letters"},
                                               {.name = "by",
                                                .kind = FieldKind::choice,
                                                .choices = {"auto", "none", "out_channels", "in_channels", "groups",
                                                            "rows", "blocks"},
                                                .help = "what each device has a part of"}}}}},
                        {.name = "sync",
                         .help = "how replicas agree",
                         .fallback_type = "allreduce",
                         .types = {{.type = "allreduce",
                                    .noun = "an allreduce sync",
                                    .fields = {{.name = "wire",
                                                .kind = FieldKind::choice,
                                                .fallback = std::string("fp32"),
                                                .choices = {"fp32", "fp16", "bf16"},
                                                .help = "what gradients are sent as"}}},
                                   {.type = "topk",
                                    .noun = "a topk sync",
                                    .fields = {{.name = "keep",
                                                .kind = FieldKind::number,
                                                .fallback = 0.01,
                                                .minimum = 1e-6,
                                                .maximum = 1,
                                                .help = "share of its gradients that a replica sends, the largest"}}},
                                   {.type = "powersgd",
                                    .noun = "a powersgd sync",
                                    .fields = {{.name = "rank",
                                                .fallback = std::int64_t{2},
                                                .minimum = 1,
                                                .maximum = 64,
                                                .help = "columns of the thin matrices that are sent"}}},
                                   {.type = "local_sgd",
                                    .noun = "a local_sgd sync",
                                    .fields = {{.name = "period",
                                                .fallback = std::int64_t{8},
                                                .minimum = 1,
                                                .help = "steps between two averages of the replicas' models"}}},
                                   ps_sync_type(),
                                   federated_sync_type()}}}}}};
  return type;
}

PlanConfig read_plan(const JsonNode* section) {
  const ObjectValues object = read_object(section, plan_section());
  const FieldValues& values = object.values;
  PlanConfig plan;
  plan.device = values.text("device");
  if (!is_device_name(plan.device))
    fail_field(object, "device", *object.node, "expected auto, cpu, cpu:N, cuda, cuda:N or cuda#I, found \"{}\"",
               plan.device);
  plan.dp = values.integer("dp");
  plan.tp = values.integer("tp");
  plan.pp = values.integer("pp");
  plan.schedule = values.text("schedule");
  plan.micro_batches = values.integer("micro_batches");
  plan.chunks = values.integer("chunks");
  if (const auto* counts = std::get_if<std::vector<double>>(&values.all().find("stages")->second))
    for (const double count : *counts) {
      if (count != std::floor(count))
        fail_field(object, "stages", *section, "a stage cannot have {:g} layers: give whole numbers", count);
      plan.stages.push_back(static_cast<std::int64_t>(count));
    }
  else
    plan.measures_stages = values.text("stages") == "measured";
  plan.cut_after = values.texts("cut_after");
  if (!plan.cut_after.empty() && (!plan.stages.empty() || plan.measures_stages))
    fail_field(object, "cut_after", *section, "'cut_after' and 'stages' both say where to cut: leave one out");
  plan.recompute = read_recompute(object, plan.pp);
  for (const ObjectValues& split : object.list("split"))
    plan.split.push_back({.match = split.values.text("match"), .by = split.values.text("by")});
  plan.zero = values.integer("zero");
  plan.sync = read_sync(object.object("sync"));
  if (section != nullptr) {
    plan.bucket_bytes = read_bytes(object, "bucket", *section);
    if (plan.sync.kind == GradientSync::Kind::servers) plan.servers = read_server_sync(object.object("sync"));
    check_zero(object, plan);
    check_ranks(object, plan);
  }
  return plan;
}

}  // namespace trifold
