#include "runtime/train/live_run.h"

#include <algorithm>

#include <fmt/format.h>

namespace trifold {
namespace {

std::string plan_text(const ParallelPlan& plan) {
  std::string text = to_string(plan.mesh);
  if (plan.mesh.pipeline > 1) text += fmt::format(", {}", plan.pipeline.schedule->name);
  if (plan.pipeline.micro_batches > 1) text += fmt::format(", {} micro-batches", plan.pipeline.micro_batches);
  if (plan.zero > 0) text += fmt::format(", ZeRO {}", plan.zero);
  return text;
}

std::string place_text(const Mesh& mesh, const MeshPlace& place) {
  std::string text;
  const auto add = [&](const char* axis, int ranks, int at) {
    if (ranks > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " ", axis, at);
  };
  add("dp", mesh.data, place.data);
  add("pp", mesh.pipeline, place.pipeline);
  add("tp", mesh.tensor, place.tensor);
  return text;
}

// A node is called by its layer; an exchange, and what belongs to no layer, by its op.
std::vector<std::int32_t> node_names(const Executable& executable, std::vector<std::string>& names) {
  const Graph& graph = executable.program().graph;
  std::vector<std::int32_t> of_nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool by_layer = node.layer >= 0 && executable.activity_of(i) != Activity::communication;
    const std::string name =
        by_layer ? graph.layers[static_cast<std::size_t>(node.layer)].id : std::string(node.op->name());
    const auto known = std::ranges::find(names, name);
    of_nodes.push_back(static_cast<std::int32_t>(known - names.begin()));
    if (known == names.end()) names.push_back(name);
  }
  return of_nodes;
}

}  // namespace

LiveRun describe_run(const Job& job, const ParallelModel& model, const World* world) {
  const ParallelPlan& plan = model.plan();
  LiveRun run{.job = job.name, .plan = plan_text(plan)};
  run.micro_batches = plan.pipeline.micro_batches;
  run.ranks = plan.mesh.size();
  run.processes = world == nullptr ? 1 : world->size();
  const int ranks_here = run.ranks / run.processes;
  const int first = world == nullptr ? 0 : world->rank() * ranks_here;
  for (int i = 0; i < ranks_here; ++i) {
    LiveRankInfo info{.rank = first + i, .place = place_text(plan.mesh, place_of(plan.mesh, first + i))};
    info.plan_bytes = model.memory_bytes(i);
    for (const auto& chunk : model.chunks(i)) info.nodes.push_back(node_names(chunk->training(), info.names));
    for (const auto& chunk : model.chunks(i)) info.nodes.push_back(node_names(chunk->evaluation(), info.names));
    run.ranks_here.push_back(std::move(info));
  }
  return run;
}

}  // namespace trifold
