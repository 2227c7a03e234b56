#include "runtime/train/parallel_plan.h"

#include <algorithm>

#include <fnmatch.h>

#include "core/error.h"
#include "runtime/compiler/build_graph.h"
#include "runtime/config/optimizer_types.h"
#include "runtime/train/layer_timing.h"
#include "runtime/train/stage_choice.h"

namespace trifold {
namespace {

void check_batch(const Job& job) {
  const BatchParts parts = batch_parts(job);
  const bool has_batch_norm =
      std::ranges::any_of(job.model.layers, [](const LayerSpec& layer) { return layer.type == "batch_norm"; });
  const std::int64_t replicas = job.plan.dp;
  const std::int64_t micro_batch = job.train.batch / (job.train.accumulate * job.plan.micro_batches);
  const std::int64_t largest = largest_group(parts, job.train.bn_group);
  if (has_batch_norm && largest != job.train.bn_group)
    fail_input(
        "{}: /train/bn_group: batch norm cannot take {} samples together in micro-batches of {} samples on {} "
        "replica{}; the largest group that works is {}",
        job.file.string(), job.train.bn_group, micro_batch, replicas, replicas == 1 ? "" : "s", largest);
}

// What the optimiser must know of all gradients, ranks tell each other once a step, a program each.
void check_optimizer(const Job& job, const ModelOptions& options, const ParallelPlan& plan) {
  const bool looks_at_all = job.train.optimizer.clip_norm > 0 || uses_precision(job.model, options, DType::f16);
  const bool divided = plan.mesh.pipeline > 1 || plan.mesh.tensor > 1 || plan.zero > 0;
  if (const OptimizerType& type = optimizer_type(job.train.optimizer.kind); type.needs_parameter_norms) {
    if (plan.mesh.tensor > 1 || plan.zero > 0)
      fail_input(
          "{}: {} needs the norm of whole parameters, of which {} gives each rank a part: use another optimizer, or {}",
          job.file.string(), type.name, plan.zero > 0 ? "plan.zero" : "plan.tp",
          plan.zero > 0 ? "plan.zero=0" : "plan.tp=1");
    if (looks_at_all && divided)
      fail_input(
          "{}: {} with train.clip_norm or fp16 needs all gradients on one rank: set clip_norm to 0 and use bf16, or "
          "plan.pp to 1",
          job.file.string(), type.name);
  }
  if (looks_at_all && plan.mesh.pipeline > 1 && job.plan.chunks > 1)
    fail_input(
        "{}: train.clip_norm and fp16's loss scale need a number of all gradients before any update, which a stage of "
        "several chunks has not: set plan.chunks to 1",
        job.file.string());
}

// Stages that update after every micro-batch do so on their own: none knows when the others do.
void check_updates_of_stages(const Job& job, const ModelOptions& options, const ParallelPlan& plan) {
  if (!pipeline_schedule(job.plan.schedule).updates_every_micro_batch) return;
  const auto refuse = [&](const char* what, const char* remedy) {
    fail_input("{}: plan.schedule: {} {}: {}", job.file.string(), job.plan.schedule, what, remedy);
  };
  if (plan.mesh.pipeline == 1) refuse("is a pipeline's", "set plan.pp to 2 or more");
  if (plan.zero > 0) refuse("keeps whole weights for every micro-batch under way", "set plan.zero to 0");
  if (plan.sync.local()) refuse("updates after every micro-batch", "use another plan.sync than local_sgd");
  if (job.train.optimizer.clip_norm > 0 || uses_precision(job.model, options, DType::f16))
    refuse("has no moment at which all stages' gradients are there",
           "set train.clip_norm to 0 and train.precision to fp32 or bf16");
}

// Servers get each tensor's gradient, and that is all they know.
void check_updates_elsewhere(const Job& job, const ModelOptions& options, const ParallelPlan& plan) {
  if (!options.updates_elsewhere) return;
  const auto refuse = [&](std::string_view what, const char* remedy) {
    fail_input("{}: parameter servers {}: {}", job.file.string(), what, remedy);
  };
  if (uses_precision(job.model, options, DType::f16))
    refuse("do not know fp16's loss scale, nor which updates it would skip", "set train.precision to fp32 or bf16");
  if (job.train.optimizer.clip_norm > 0) refuse("do not know the norm of all gradients", "set train.clip_norm to 0");
  if (plan.zero > 0) refuse("have the optimiser's state, which plan.zero divides", "set plan.zero to 0");
  if (plan.sync.local()) refuse("do the updates of a worker's replicas", "use another plan.sync than local_sgd");
  if (plan.pipeline.schedule->updates_every_micro_batch)
    refuse(fmt::format("update after whole batches, {}'s stages after micro-batches", plan.pipeline.schedule->name),
           "use another plan.schedule");
}

// The last rule that matches a layer counts.
std::vector<std::optional<LayerSplit>> splits_of_layers(const Job& job) {
  std::vector<std::optional<LayerSplit>> splits(job.model.layers.size());
  for (const TensorSplit& rule : job.plan.split) {
    bool matched = false;
    for (std::size_t i = 0; i < splits.size(); ++i) {
      if (::fnmatch(rule.match.c_str(), job.model.layers[i].id.c_str(), 0) != 0) continue;
      splits[i] = rule.by == "auto" ? std::nullopt : parse_split(rule.by);
      matched = true;
    }
    if (!matched)
      fail_input("{}: plan.split matches \"{}\", but no layer has such an id", job.file.string(), rule.match);
  }
  return splits;
}

// A part that holds one micro-batch at a time goes backward right after forward: what it would have to make again has
// to be in memory all at once either way.
std::vector<bool> recomputing_parts(const StageRecompute& asked, const Pipeline& pipeline) {
  std::vector<bool> parts(static_cast<std::size_t>(pipeline.stages * pipeline.chunks), false);
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    const bool listed = std::ranges::find(asked.stages, stage) != asked.stages.end();
    const std::vector<int> slots = assign_slots(pipeline, stage).slots;
    for (int chunk = 0; chunk < pipeline.chunks; ++chunk)
      parts[static_cast<std::size_t>(chunk * pipeline.stages + stage)] =
          listed || (asked.all && slots[static_cast<std::size_t>(chunk)] > 1);
  }
  return parts;
}

}  // namespace

BatchParts batch_parts(const Job& job) {
  const std::int64_t replicas = job.plan.dp;
  const std::int64_t micro_batches = job.train.accumulate * job.plan.micro_batches;
  const std::int64_t parts = micro_batches * replicas;
  if (job.train.batch % parts != 0) {
    const std::int64_t less = job.train.batch / parts * parts;
    fail_input("{}: a batch of {} does not divide into {} micro-batches of {} replicas; {}{} would work",
               job.file.string(), job.train.batch, micro_batches, replicas, less > 0 ? fmt::format("{} or ", less) : "",
               less + parts);
  }
  const std::int64_t micro_batch = job.train.batch / micro_batches;
  // Replicas of local SGD do not exchange their statistics.
  return job.plan.sync.local() ? BatchParts{micro_batch / replicas, 1} : BatchParts{micro_batch, replicas};
}

std::int64_t largest_group(const BatchParts& parts, std::int64_t wanted) {
  for (std::int64_t group = std::min(parts.micro_batch, wanted); group > 1; --group)
    if (can_take_group(group, parts)) return group;
  return 1;
}

// A replica's part of the micro-batch holds whole groups, or each group lies on whole parts.
bool can_take_group(std::int64_t group, const BatchParts& parts) {
  const std::int64_t part = parts.micro_batch / parts.replicas;
  return part % group == 0 || (group % part == 0 && parts.micro_batch % group == 0);
}

Mesh mesh_of(const PlanConfig& plan) {
  return {
      .data = static_cast<int>(plan.dp), .pipeline = static_cast<int>(plan.pp), .tensor = static_cast<int>(plan.tp)};
}

ParallelPlan make_parallel_plan(const Job& job, const ModelOptions& job_options, std::span<const double> measured) {
  ParallelPlan plan;
  plan.mesh = mesh_of(job.plan);
  plan.threads = std::max(1, job_options.threads / plan.mesh.size());
  plan.sync = job.plan.sync;
  plan.zero = plan.mesh.data > 1 ? static_cast<int>(job.plan.zero) : 0;
  plan.bucket_bytes = static_cast<std::size_t>(job.plan.bucket_bytes);
  check_batch(job);
  check_optimizer(job, job_options, plan);
  plan.pipeline = {.schedule = &pipeline_schedule(job.plan.schedule),
                   .stages = plan.mesh.pipeline,
                   .micro_batches = static_cast<int>(job.train.accumulate * job.plan.micro_batches),
                   .chunks = static_cast<int>(job.plan.chunks)};
  if (plan.mesh.pipeline == 1) {
    plan.pipeline.schedule = &pipeline_schedule(kDefaultSchedule);
    plan.pipeline.chunks = 1;
  }
  check_pipeline(plan.pipeline);
  check_updates_of_stages(job, job_options, plan);
  check_updates_elsewhere(job, job_options, plan);

  plan.recomputes = recomputing_parts(job.plan.recompute, plan.pipeline);
  plan.splits = splits_of_layers(job);
  const ModelContext context{.batch = job.train.batch / plan.pipeline.micro_batches / plan.mesh.data,
                             .global_batch = job.train.batch,
                             .bn_group = job.train.bn_group,
                             .classes = job.model.classes,
                             .replicas = job.plan.sync.local() ? 1 : plan.mesh.data};
  const Graph whole = build_graph(job.model, context, Mode::train, {plan.mesh.tensor, 0, plan.splits});
  plan.layers_of_part = choose_stages(job, job_options, plan, whole, measured);
  plan.cut = make_cut(plan.layers_of_part, plan.pipeline.stages);
  plan.cut.part_of_layer.resize(whole.layers.size(), plan.cut.parts - 1);
  // The stage before takes gradients as they come, one behind at most. With chunks it may first have to wait for an
  // activation of this stage: it is never further behind than the pipeline is long, there and back.
  plan.cut.gradient_copies = std::min(plan.pipeline.micro_batches, plan.pipeline.chunks > 1 ? 2 * plan.cut.parts : 2);
  return plan;
}

std::vector<double> measure_for_stages(const Job& job, const ModelOptions& job_options) {
  const PlanConfig& plan = job.plan;
  if (!plan.measures_stages || plan.pp == 1) return {};
  const std::int64_t micro_batch = job.train.batch / (job.train.accumulate * plan.micro_batches * plan.dp);
  const auto ranks = static_cast<int>(plan.dp * plan.tp * plan.pp);
  return measure_layers(job, job_options, std::max<std::int64_t>(1, micro_batch),
                        std::max(1, job_options.threads / ranks));
}

std::vector<ModelOptions> ParallelPlan::rank_options(const ModelOptions& job_options, const RankGroups* groups,
                                                     int rank) const {
  const MeshPlace place = place_of(mesh, rank);
  const SlottedActions actions = assign_slots(pipeline, place.pipeline);
  std::vector<ModelOptions> chunks;
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    ModelOptions options = job_options;
    options.accumulate = pipeline.micro_batches;
    options.threads = threads;
    options.mesh = mesh;
    options.place = place;
    options.sync = sync;
    options.zero = zero;
    options.bucket_bytes = bucket_bytes;
    options.ranks = groups;
    options.splits = splits;
    options.cut = cut;
    options.part = chunk * pipeline.stages + place.pipeline;
    options.recomputes_stage = recomputes[static_cast<std::size_t>(options.part)];
    options.micro_batches = {.interleave = mesh.pipeline > 1,
                             .slots = mesh.pipeline > 1 ? actions.slots[static_cast<std::size_t>(chunk)] : 1,
                             .splits_backward = mesh.pipeline > 1 && pipeline.schedule->splits_backward};
    options.updates_every_micro_batch = pipeline.schedule->updates_every_micro_batch;
    chunks.push_back(std::move(options));
  }
  return chunks;
}

}  // namespace trifold
