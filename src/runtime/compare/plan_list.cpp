#include "runtime/compare/plan_list.h"

#include <algorithm>
#include <cctype>

#include "runtime/compare/common_group.h"
#include "runtime/config/server_section.h"
#include "runtime/core/error.h"
#include "runtime/train/device_choice.h"
#include "runtime/train/fold_plan.h"
#include "runtime/train/model_options.h"
#include "runtime/train/shard_data.h"

namespace trifold {
namespace {

constexpr std::string_view kSingle = "single";

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> names(1);
  for (const char letter : text) {
    if (letter == ';')
      names.emplace_back();
    else if (std::isspace(static_cast<unsigned char>(letter)) == 0)
      names.back() += letter;
  }
  std::erase(names, "");
  if (names.empty())
    fail_input("--plans: expected plans with ';' between them, such as \"single; dp=2; pp=2,schedule=1f1b\"");
  return names;
}

// What a plan divides the work by, as it is where nothing is said.
std::vector<Override> undivided(const Job& job) {
  std::vector<Override> settings;
  for (const char* text : {"plan.dp=1", "plan.tp=1", "plan.pp=1", "plan.micro_batches=1", "plan.chunks=1",
                           "plan.zero=0", "plan.schedule=1f1b", "plan.stages=auto", "plan.recompute=none"})
    settings.push_back(parse_set(text));
  if (job.plan.servers)
    for (const char* text : {R"(plan.sync={"type": "allreduce"})", "data.shard=batch"})
      settings.push_back(parse_set(text));
  // A number of ranks belongs to one mesh.
  for (const char* kind : {"cpu", "cuda"})
    if (job.plan.device.starts_with(fmt::format("{}:", kind)))
      settings.push_back(parse_set(fmt::format("plan.device={}", kind)));
  return settings;
}

// The division of the data is the servers': a plan with servers has the job's.
void add_division(const Job& asked, std::vector<Override>& settings) {
  if (!asked.plan.servers) return;
  for (std::size_t i = settings.size(); i-- > 0;) {
    const Override& setting = settings[i];
    if (setting.path != std::vector<std::string>{"plan", "sync"}) continue;
    const JsonNode* type = setting.value.find("type");
    if (type == nullptr || !is_server_sync(type->text)) return;
    const bool of_batches = asked.data.division.kind == DivisionKind::batch;
    const DivisionKind own = of_batches && type->text == "federated" ? DivisionKind::kfold : asked.data.division.kind;
    settings.push_back(parse_set(fmt::format("data.shard={}", name_of(own))));
    return;
  }
}

Job load_plan(const std::filesystem::path& file, std::vector<Override> settings, const std::string& name,
              const Job& asked) {
  bool has_micro_batches = false;
  if (name != kSingle) {
    for (Override& setting : parse_plan(name)) {
      has_micro_batches = has_micro_batches || setting.path.back() == "micro_batches";
      settings.push_back(std::move(setting));
    }
  }
  add_division(asked, settings);
  settings.push_back(parse_set("train.bn_group=1"));  // the common one is not known yet
  Job job = load_job(file, settings);
  if (job.plan.pp > 1 && !has_micro_batches) job.plan.micro_batches = default_micro_batches(job);
  return job;
}

// Of each rank, or of each worker's model.
Job job_of_model(const Job& job) {
  return job.plan.servers ? shard_job(job) : job;
}

void check_steps(const ServerSync& servers) {
  if (servers.federated)
    fail_input("a round of federated training is no step of the single run, and cannot be held against one");
  if (servers.period > 1)
    fail_input("workers that push every {} steps do other steps than the single run: say period=1", servers.period);
}

// The plan, or the reason against it with the plan's name. The group of batch norm is not known yet.
FoldPlan plan_named(const ComparedPlan& plan, const ModelOptions& options) {
  try {
    if (plan.job.plan.servers) check_steps(*plan.job.plan.servers);
    return plan_fold(job_of_model(plan.job), options);  // stages that are to be measured are balanced by estimate here
  } catch (const Error& error) {
    throw Error(error.fault(), fmt::format("plan '{}': {}", plan.name, error.what()));
  }
}

}  // namespace

std::int64_t default_micro_batches(const Job& job) {
  const std::int64_t round = job.plan.schedule == "interleaved" ? job.plan.pp : 1;
  const std::int64_t most = 2 * job.plan.pp;
  for (std::int64_t count = most; count >= round; count -= round)
    if (job.train.batch % (job.train.accumulate * job.plan.dp * count) == 0) return count;
  return most;  // the plan will be refused, with what would work
}

PlanList load_plans(const std::filesystem::path& file, std::vector<Override> settings, std::string_view plans) {
  const Job job = load_job(file, settings);
  const ModelOptions options = model_options(job);
  for (Override& setting : undivided(job)) settings.push_back(std::move(setting));

  PlanList list;
  list.asked_group = job.train.bn_group;
  list.cores = options.threads;
  list.has_batch_norm =
      std::ranges::any_of(job.model.layers, [](const LayerSpec& layer) { return layer.type == "batch_norm"; });
  std::vector<std::string> names = split_list(plans);
  if (std::ranges::find(names, kSingle) == names.end()) names.insert(names.begin(), std::string(kSingle));
  list.single = static_cast<std::size_t>(std::ranges::find(names, kSingle) - names.begin());
  std::vector<BatchParts> parts;
  for (const std::string& name : names) {
    list.plans.push_back({name, load_plan(file, settings, name, job)});
    const FoldPlan plan = plan_named(list.plans.back(), options);
    const Job& compared = list.plans.back().job;
    check_gpus(compared.plan.device, plan.mesh.size());
    parts.push_back({job_of_model(compared).train.batch / plan.pipeline.micro_batches, plan.mesh.data});
  }
  const std::int64_t group = list.has_batch_norm ? common_bn_group(parts, list.asked_group) : list.asked_group;
  // Without batch norm a group means nothing; but a worker would refuse one that is larger than its share.
  for (ComparedPlan& plan : list.plans)
    if (list.has_batch_norm || !plan.job.plan.servers) plan.job.train.bn_group = group;
  return list;
}

}  // namespace trifold
