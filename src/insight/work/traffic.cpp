#include "insight/work/traffic.h"

#include <algorithm>

namespace trifold {
namespace {

double bytes_of(const Program& program, const std::vector<ValueId>& values) {
  return values.empty() ? 0 : static_cast<double>(program.descs[static_cast<std::size_t>(values[0])].bytes());
}

Traffic& find_or_add(std::vector<Traffic>& traffic, const Node& node, Axis axis, const Mesh& mesh) {
  const auto found = std::ranges::find_if(
      traffic, [&](const Traffic& each) { return each.kind == node.op->name() && each.axis == axis; });
  if (found != traffic.end()) return *found;
  const int ranks = axis == Axis::pipeline ? 2 : mesh.size(axis);
  return traffic.emplace_back(Traffic{.kind = std::string(node.op->name()), .axis = axis, .ranks = ranks});
}

// The rank that this one sends to: the other stage's of its replica, or the next of the axis's ring.
int receiver_of(const Exchange& exchange, const Mesh& mesh, int rank) {
  MeshPlace place = place_of(mesh, rank);
  if (const auto* message = dynamic_cast<const StageMessage*>(&exchange))
    place.pipeline = message->stage;
  else if (exchange.axis == Axis::data)
    place.data = (place.data + 1) % mesh.data;
  else if (exchange.axis == Axis::tensor)
    place.tensor = (place.tensor + 1) % mesh.tensor;
  else
    place.pipeline = (place.pipeline + 1) % mesh.pipeline;
  return rank_of(mesh, place);
}

}  // namespace

const Exchange* exchange_of(const Node& node) {
  return dynamic_cast<const Exchange*>(node.op.get());
}

std::vector<Traffic> traffic_of(const ParallelModel& model, int rank, int timed_steps) {
  const ParallelPlan& plan = model.plan();
  std::vector<Traffic> traffic;
  for (const auto& chunk : model.chunks(rank)) {
    const Executable& training = chunk->training();
    const std::vector<Node>& nodes = training.program().graph.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Exchange* exchange = exchange_of(nodes[i]);
      if (exchange == nullptr) continue;
      const double in = bytes_of(training.program(), nodes[i].in);
      const double out = bytes_of(training.program(), nodes[i].out);
      const double sent = exchange->sent_bytes(in, out, plan.mesh.size(exchange->axis));
      if (sent == 0) continue;  // a receive is another rank's send
      const int calls = nodes[i].phase == Phase::update ? 1 : plan.pipeline.micro_batches;
      Traffic& kind = find_or_add(traffic, nodes[i], exchange->axis, plan.mesh);
      kind.calls += calls;
      kind.bytes += calls * std::max(in, out);
      kind.sent += calls * sent;
      kind.sent_to[receiver_of(*exchange, plan.mesh, rank)] += calls * sent;
      if (!exchange->is_message()) kind.seconds += training.node_seconds()[i] / timed_steps;
    }
  }
  return traffic;
}

Bandwidth bandwidth_of(const Traffic& traffic) {
  return {.algorithm = traffic.bytes / traffic.seconds / 1e9, .bus = traffic.sent / traffic.seconds / 1e9};
}

}  // namespace trifold
