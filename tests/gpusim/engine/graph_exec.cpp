#include "engine/graph_exec.h"

#include <unordered_map>
#include <unordered_set>

#include "engine/activity.h"
#include "engine/stream.h"

namespace gpusim {
namespace {

std::unordered_set<CUgraphExec_st*>& execs() {
  static auto* all = new std::unordered_set<CUgraphExec_st*>;
  return *all;
}

std::vector<CUgraphExec_st::Node> flatten(const CUgraph_st& graph) {
  std::unordered_map<const CUgraphNode_st*, std::size_t> place;
  std::vector<CUgraphExec_st::Node> nodes;
  for (const auto& node : graph.nodes) {
    place[node.get()] = nodes.size();
    CUgraphExec_st::Node flat{.work = node->work, .device = node->device, .branch = node->branch, .dependencies = {}};
    for (const auto* dependency : node->dependencies) flat.dependencies.push_back(place.at(dependency));
    nodes.push_back(std::move(flat));
  }
  return nodes;
}

}  // namespace

CUgraphExec_st* instantiate(const CUgraph_st& graph) {
  auto* exec = new CUgraphExec_st;
  exec->nodes = flatten(graph);
  exec->queues.resize(static_cast<std::size_t>(graph.branches));
  for (const auto& node : exec->nodes) {
    auto*& queue = exec->queues[static_cast<std::size_t>(node.branch)];
    if (!queue) queue = &new_queue(node.device);
  }
  execs().insert(exec);
  return exec;
}

CUgraphExec_st* find_exec(CUgraphExec_st* handle) {
  return execs().contains(handle) && handle->alive ? handle : nullptr;
}

void destroy_exec(CUgraphExec_st& exec) {
  exec.alive = false;
  exec.nodes.clear();
  for (auto* queue : exec.queues) {
    if (queue) retire(*queue);
  }
}

void launch_graph(CUgraphExec_st& exec, CUstream_st& stream) {
  const ApiActivity call;
  Clock start = clock_of(stream);
  join(start, exec.last_launch);
  std::vector<Clock> clocks;
  for (const auto& node : exec.nodes) {
    Clock clock = start;
    for (const auto dependency : node.dependencies) join(clock, clocks[dependency]);
    submit(*exec.queues[static_cast<std::size_t>(node.branch)], clock, node.work);
    clocks.push_back(std::move(clock));
  }
  for (const auto& clock : clocks) join(stream.clock, clock);
  exec.last_launch = stream.clock;
}

std::string update_exec(CUgraphExec_st& exec, const CUgraph_st& graph) {
  auto nodes = flatten(graph);
  if (nodes.size() != exec.nodes.size()) {
    return "the graph has " + std::to_string(nodes.size()) + " nodes, the executable one " +
           std::to_string(exec.nodes.size());
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& now = nodes[i];
    const auto& before = exec.nodes[i];
    if (now.work.kind != before.work.kind || now.work.what != before.work.what || now.device != before.device) {
      return "node " + std::to_string(i) + " is '" + now.work.what + "', not '" + before.work.what + "'";
    }
    if (now.dependencies != before.dependencies || now.branch != before.branch) {
      return "node " + std::to_string(i) + " ('" + now.work.what + "') has other dependencies";
    }
  }
  exec.nodes = std::move(nodes);
  return {};
}

}  // namespace gpusim
