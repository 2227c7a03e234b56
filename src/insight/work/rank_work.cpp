#include "insight/work/rank_work.h"

#include <algorithm>
#include <numeric>

#include "insight/work/traffic.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/optimizer.h"

namespace trifold {
namespace {

double total_of(const std::array<double, kPhases>& phases) {
  return std::accumulate(phases.begin(), phases.end(), 0.0);
}

std::size_t index_of(Phase phase) {
  return static_cast<std::size_t>(phase);
}

void add_nodes(const Executable& program, RankWork& work) {
  const std::vector<Node>& nodes = program.program().graph.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const double seconds = program.node_seconds()[i];
    const Exchange* exchange = exchange_of(nodes[i]);
    if (nodes[i].repeats_forward) work.repeating += seconds;
    if (exchange != nullptr && exchange->is_message())
      work.messages += seconds;
    else if (exchange != nullptr)
      work.collectives[index_of(nodes[i].phase)] += seconds;
    else if (dynamic_cast<const AccumulateGradients*>(nodes[i].op.get()) != nullptr)
      work.accumulating += seconds;
    else
      work.kernels[index_of(nodes[i].phase)] += seconds;
  }
}

double optimizing(const RankWork& work) {
  return work.kernels[index_of(Phase::update)] + work.accumulating;
}

// Of one micro-batch; and what follows after the last.
struct StageWork {
  StageCost cost = {0, 0, 0, 0};
  double update = 0;
};

std::vector<StageWork> work_of_stages(const Pipeline& pipeline, const Mesh& mesh, int steps,
                                      std::span<const RankWork> ranks) {
  std::vector<StageWork> stages(static_cast<std::size_t>(mesh.pipeline));
  const double per_step = 1.0 / (steps * mesh.data * mesh.tensor);
  const double per_micro_batch = per_step / pipeline.micro_batches;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankWork& work = ranks[rank];
    StageWork& stage = stages[static_cast<std::size_t>(place_of(mesh, static_cast<int>(rank)).pipeline)];
    const auto of = [&](Phase phase) { return work.kernels[index_of(phase)] + work.collectives[index_of(phase)]; };
    stage.cost.forward += (of(Phase::forward) + work.copying) * per_micro_batch;
    stage.cost.repeated_forward += work.repeating * per_micro_batch;
    stage.cost.input_gradient += (of(Phase::backward_input) - work.repeating) * per_micro_batch;
    stage.cost.weight_gradient += (of(Phase::backward_weight) + work.accumulating) * per_micro_batch;
    stage.update += of(Phase::update) * per_step;
  }
  return stages;
}

}  // namespace

RankWork RankWork::since(const RankWork& before) const {
  RankWork work = *this;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    work.kernels[phase] -= before.kernels[phase];
    work.collectives[phase] -= before.collectives[phase];
  }
  work.repeating -= before.repeating;
  work.accumulating -= before.accumulating;
  work.messages -= before.messages;
  work.copying -= before.copying;
  work.idle -= before.idle;
  return work;
}

std::vector<RankWork> work_of_ranks(const ParallelModel& model) {
  std::vector<RankWork> ranks;
  for (int rank = 0; rank < model.plan().mesh.size(); ++rank) {
    RankWork work;
    for (const auto& chunk : model.chunks(rank)) add_nodes(chunk->training(), work);
    work.copying = model.seconds(rank).input;
    work.idle = model.seconds(rank).idle;
    ranks.push_back(work);
  }
  return ranks;
}

StepSplit split_of(double seconds, double loading, int steps, std::span<const RankWork> ranks) {
  StepSplit split;
  const double share = 1.0 / (steps * static_cast<double>(ranks.size()));
  for (const RankWork& work : ranks) {
    split.exposed_comm += total_of(work.collectives) * share;
    split.bubble += (work.messages + work.idle) * share;
    split.input += (work.copying + loading) * share;
    split.optimizer += optimizing(work) * share;
  }
  split.compute = seconds / steps - split.sum();
  return split;
}

PipelineForecast forecast(const Pipeline& pipeline, const Mesh& mesh, int steps, std::span<const RankWork> ranks) {
  const std::vector<StageWork> stages = work_of_stages(pipeline, mesh, steps, ranks);
  std::vector<StageCost> costs(stages.size());
  std::ranges::transform(stages, costs.begin(), &StageWork::cost);
  const Timeline timeline = play(pipeline, costs);

  PipelineForecast result;
  double end = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    end = std::max(end, timeline.stages[stage].back().end + stages[stage].update);
    result.stage_seconds.push_back(costs[stage].sum() * pipeline.micro_batches + stages[stage].update);
  }
  for (const double work : result.stage_seconds) result.bubble += (end - work) / static_cast<double>(stages.size());
  return result;
}

}  // namespace trifold
