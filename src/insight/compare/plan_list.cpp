#include "insight/compare/plan_list.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "insight/compare/common_group.h"
#include "runtime/config/server_section.h"
#include "runtime/train/device_choice.h"
#include "runtime/train/model_options.h"
#include "runtime/train/parallel_plan.h"
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
                           "plan.zero=0", "plan.stages=auto", "plan.recompute=none"})
    settings.push_back(parse_set(text));
  settings.push_back(parse_set(fmt::format("plan.schedule={}", kDefaultSchedule)));
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
  // Every plan can take a group of 1; which one it takes is decided when all of them are known.
  settings.push_back(parse_set("train.bn_group=1"));
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

// Rethrows errors with the plan's name in front.
template <class Check>
auto named(const std::string& plan, const Check& check) {
  try {
    return check();
  } catch (const Error& error) {
    throw Error(error.fault(), fmt::format("plan '{}': {}", plan, error.what()));
  }
}

// Refuses a plan that cannot run by itself; else gives it the largest group that it can take.
BatchParts check_alone(Job& job, std::int64_t asked_group, const ModelOptions& options) {
  if (job.plan.servers) check_steps(*job.plan.servers);
  const BatchParts parts = batch_parts(job_of_model(job));
  job.train.bn_group = largest_group(parts, asked_group);
  const ParallelPlan plan =
      make_parallel_plan(job_of_model(job), options);  // stages to be measured are balanced by estimate here
  check_gpus(job.plan.device, plan.mesh.size());
  return parts;
}

}  // namespace

std::int64_t default_micro_batches(const Job& job) {
  const std::int64_t round = pipeline_schedule(job.plan.schedule).in_rounds ? job.plan.pp : 1;
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
    Job& compared = list.plans.emplace_back(ComparedPlan{name, load_plan(file, settings, name, job)}).job;
    parts.push_back(named(name, [&] { return check_alone(compared, list.asked_group, options); }));
  }
  if (!list.has_batch_norm) {
    // A group means nothing then; but a worker would refuse one that is larger than its share.
    for (ComparedPlan& plan : list.plans)
      if (!plan.job.plan.servers) plan.job.train.bn_group = list.asked_group;
    return list;
  }
  const std::int64_t group = common_bn_group(parts, list.asked_group);
  for (ComparedPlan& plan : list.plans)
    if (std::exchange(plan.job.train.bn_group, group) != group)
      named(fmt::format("{} with train.bn_group={}, the largest that all plans can take", plan.name, group),
            [&] { make_parallel_plan(job_of_model(plan.job), options); });
  return list;
}

}  // namespace trifold
