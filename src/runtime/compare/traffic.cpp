#include "runtime/compare/traffic.h"

#include <algorithm>

namespace trifold {
namespace {

struct Exchange {
  Axis axis = Axis::data;
  double bytes = 0;
  double sent = 0;
};

double bytes_of(const Program& program, ValueId value) {
  return static_cast<double>(program.descs[static_cast<std::size_t>(value)].bytes());
}

// One call of a node that sends.
std::optional<Exchange> exchange_of(const Program& program, const Node& node, const Mesh& mesh) {
  if (const auto* op = dynamic_cast<const AllReduce*>(node.op.get())) {
    const double bytes = bytes_of(program, node.in[0]);
    const double ranks = mesh.size(op->axis);
    // Sums over runs of ranks are made of what all have gathered.
    return Exchange{op->axis, bytes, op->span > 0 ? (ranks - 1) * bytes : 2 * (ranks - 1) / ranks * bytes};
  }
  const auto gathering = [&](Axis axis) {
    const double bytes = bytes_of(program, node.out[0]);
    const double ranks = mesh.size(axis);
    return Exchange{axis, bytes, (ranks - 1) / ranks * bytes};
  };
  if (const auto* op = dynamic_cast<const AllGather*>(node.op.get())) return gathering(op->axis);
  if (const auto* op = dynamic_cast<const GatherChannels*>(node.op.get())) return gathering(op->axis);
  if (dynamic_cast<const Send*>(node.op.get()) != nullptr) {
    const double bytes = bytes_of(program, node.in[0]);
    return Exchange{Axis::pipeline, bytes, bytes};
  }
  return std::nullopt;
}

Traffic& find_or_add(std::vector<Traffic>& traffic, const Node& node, Axis axis, const Mesh& mesh) {
  const auto found = std::ranges::find_if(
      traffic, [&](const Traffic& each) { return each.kind == node.op->name() && each.axis == axis; });
  if (found != traffic.end()) return *found;
  const int ranks = axis == Axis::pipeline ? 2 : mesh.size(axis);
  return traffic.emplace_back(Traffic{.kind = std::string(node.op->name()), .axis = axis, .ranks = ranks});
}

}  // namespace

bool is_collective(const Op& op) {
  return op.name() == AllReduce{}.name() || op.name() == AllGather{}.name() || op.name() == GatherChannels{}.name();
}

std::vector<Traffic> traffic_of(const FoldedModel& model, int rank, int timed_steps) {
  const FoldPlan& plan = model.plan();
  std::vector<Traffic> traffic;
  for (const auto& chunk : model.chunks(rank)) {
    const Executable& training = chunk->training();
    const std::vector<Node>& nodes = training.program().graph.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::optional<Exchange> exchange = exchange_of(training.program(), nodes[i], plan.mesh);
      if (!exchange) continue;
      const int calls = nodes[i].phase == Phase::update ? 1 : plan.pipeline.micro_batches;
      Traffic& kind = find_or_add(traffic, nodes[i], exchange->axis, plan.mesh);
      kind.calls += calls;
      kind.bytes += calls * exchange->bytes;
      kind.sent += calls * exchange->sent;
      if (is_collective(*nodes[i].op)) kind.seconds += training.node_seconds()[i] / timed_steps;
    }
  }
  return traffic;
}

Bandwidth bandwidth_of(const Traffic& traffic) {
  return {.algorithm = traffic.bytes / traffic.seconds / 1e9, .bus = traffic.sent / traffic.seconds / 1e9};
}

}  // namespace trifold
