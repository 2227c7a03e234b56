#include "runtime/config/plan_section.h"

#include <algorithm>

#include "runtime/config/validate.h"

namespace trifold {
namespace {

Field axis(const char* name, const char* help) {
  return {.name = name, .fallback = std::int64_t{1}, .minimum = 1, .help = help};
}

bool is_device_name(const std::string& name) {
  if (name == "auto" || name == "cpu" || name == "cuda") return true;
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos || (name.substr(0, colon) != "cpu" && name.substr(0, colon) != "cuda")) return false;
  const std::string_view digits = std::string_view(name).substr(colon + 1);
  return !digits.empty() && digits.size() <= 3 &&
         std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

// cpu:N is N ranks, which the mesh must be.
void check_ranks(const ObjectValues& object, const PlanConfig& plan) {
  if (!plan.device.starts_with("cpu:")) return;
  const std::int64_t ranks = std::stoll(plan.device.substr(4));
  const std::int64_t mesh = plan.dp * plan.tp * plan.pp;
  if (ranks != mesh)
    fail_field(object, "device", *object.node,
               "\"{}\" is {} rank{}, but dp {} x tp {} x pp {} is {}; \"cpu:{}\" or \"cpu\" would work, or dp={}",
               plan.device, ranks, ranks == 1 ? "" : "s", plan.dp, plan.tp, plan.pp, mesh, mesh,
               std::max<std::int64_t>(ranks, 1));
}

// Settings that this version could only ignore.
void refuse_what_is_not_there(const ObjectValues& object, const PlanConfig& plan) {
  const JsonNode& section = *object.node;
  const auto refuse_unless = [&](bool fine, const char* name, const char* must_be) {
    if (!fine) fail_field(object, name, section, "this version has no other than {}", must_be);
  };
  refuse_unless(plan.zero == 0, "zero", "0");
  refuse_unless(plan.sync == "allreduce", "sync", "{\"type\": \"allreduce\"}");
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
                       "cpu, cpu:4 for four ranks, cuda, cuda:1 for the second GPU; auto: a GPU where there is one, "
                       "else the CPU"},
                  axis("dp", "data replicas"),
                  axis("tp", "devices that share each layer"),
                  axis("pp", "pipeline stages"),
                  {.name = "schedule",
                   .kind = FieldKind::choice,
                   .fallback = std::string("1f1b"),
                   .choices = {"gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-h2"},
                   .help = "order of work in a pipeline"},
                  axis("micro_batches", "parts of a batch that flow through the pipeline"),
                  axis("chunks", "runs of layers a stage has, with the interleaved schedule"),
                  {.name = "stages",
                   .kind = FieldKind::choice,
                   .fallback = std::string("auto"),
                   .choices = {"auto"},
                   .help = "auto, or how many layers each stage has"},
                  {.name = "zero",
                   .fallback = std::int64_t{0},
                   .minimum = 0,
                   .maximum = 3,
                   .help = "what replicas shard: 1 optimiser state, 2 gradients too, 3 parameters too"}},
             .second_forms = {{"stages",
                               {.name = "stages", .kind = FieldKind::numbers, .minimum = 1, .maximum = 65536}}},
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
                         .types = {{.type = "allreduce", .noun = "an allreduce sync"},
                                   {.type = "sharded", .noun = "a sharded sync"},
                                   {.type = "parameter_server", .noun = "a parameter_server sync"},
                                   {.type = "federated", .noun = "a federated sync"}}}}}}};
  return type;
}

PlanConfig read_plan(const JsonNode* section) {
  const ObjectValues object = read_object(section, plan_section());
  const FieldValues& values = object.values;
  PlanConfig plan;
  plan.device = values.text("device");
  if (!is_device_name(plan.device))
    fail_field(object, "device", *object.node, "expected auto, cpu, cpu:N, cuda or cuda:N, found \"{}\"", plan.device);
  plan.dp = values.integer("dp");
  plan.tp = values.integer("tp");
  plan.pp = values.integer("pp");
  plan.schedule = values.text("schedule");
  plan.micro_batches = values.integer("micro_batches");
  plan.chunks = values.integer("chunks");
  if (const auto* counts = std::get_if<std::vector<double>>(&values.all().find("stages")->second))
    for (const double count : *counts) plan.stages.push_back(static_cast<std::int64_t>(count));
  for (const ObjectValues& split : object.list("split"))
    plan.split.push_back({.match = split.values.text("match"), .by = split.values.text("by")});
  plan.zero = values.integer("zero");
  plan.sync = object.object("sync").type;
  if (section != nullptr) {
    refuse_what_is_not_there(object, plan);
    check_ranks(object, plan);
  }
  return plan;
}

}  // namespace trifold
