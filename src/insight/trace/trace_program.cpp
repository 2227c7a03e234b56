#include "insight/trace/trace_program.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "insight/work/traffic.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/optimizer.h"

namespace trifold {
namespace {

const char* category_of(const Node& node) {
  if (const Exchange* exchange = exchange_of(node))
    return exchange->is_message() ? TraceCategory::message : TraceCategory::communication;
  if (node.op->kind() == OpKind::update) return TraceCategory::update;
  switch (node.phase) {
    case Phase::forward:
      return TraceCategory::forward;
    case Phase::backward_input:
      return TraceCategory::input_gradient;
    case Phase::backward_weight:
      return TraceCategory::weight_gradient;
    case Phase::update:
      return TraceCategory::update;
  }
  return "";
}

double size_of_first(const Program& program, const std::vector<ValueId>& values) {
  return values.empty() ? 0 : static_cast<double>(program.descs[static_cast<std::size_t>(values[0])].bytes());
}

const Place& place_in(const Program& program, ValueId value) {
  return program.memory.places[static_cast<std::size_t>(value)];
}

bool overlap(const Place& a, const Place& b) {
  return a.region == b.region && a.region != Region::none && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

// Of a sum of gradients over replicas: the node that writes its memory last before it. (Memory of the arena may have
// been another value's, but earlier.)
int maker_of(const Program& program, std::size_t index) {
  const Node& sum = program.graph.nodes[index];
  const Role role = program.graph[sum.in[0]].role;
  if (role != Role::parameter_gradient && role != Role::gradient) return -1;
  for (std::size_t i = index; i-- > 0;) {
    const Node& node = program.graph.nodes[i];
    if (!program.kernels[i] || exchange_of(node) != nullptr) continue;
    for (const ValueId out : node.out)
      if (overlap(place_in(program, out), place_in(program, sum.in[0]))) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> ranks_along(const Mesh& mesh, const MeshPlace& place, const Exchange& exchange) {
  std::vector<int> ranks;
  for (int i = 0; i < mesh.size(exchange.axis); ++i) {
    MeshPlace other = place;
    (exchange.axis == Axis::data ? other.data : exchange.axis == Axis::tensor ? other.tensor : other.pipeline) = i;
    const auto* message = dynamic_cast<const StageMessage*>(&exchange);
    if (message == nullptr || i == message->stage || i == place.pipeline) ranks.push_back(rank_of(mesh, other));
  }
  return ranks;
}

void describe_exchange(const Program& program, std::size_t index, const Mesh& mesh, const MeshPlace& place,
                       TraceNode& described) {
  const Node& node = program.graph.nodes[index];
  const Exchange& exchange = *exchange_of(node);
  const double in = size_of_first(program, node.in);
  const double out = size_of_first(program, node.out);
  described.flops = 0;
  described.bytes = std::max(in, out);
  described.axis = name_of(exchange.axis);
  described.ranks = ranks_along(mesh, place, exchange);
  described.sent_bytes = exchange.sent_bytes(in, out, mesh.size(exchange.axis));
  if (const auto* sum = dynamic_cast<const AllReduce*>(&exchange)) described.aside = sum->aside;
  described.joins = dynamic_cast<const JoinSums*>(&exchange) != nullptr;
  if (const auto* message = dynamic_cast<const StageMessage*>(&exchange)) {
    described.is_message = true;
    described.sends = node.out.empty();
    described.message = {place.data, place.tensor, message->route, message->tag};
  } else if (exchange.axis == Axis::data && !described.joins) {
    described.made_by = maker_of(program, index);
  }
}

// What each node finds in memory, from the blocks' lives. What is sent from a slot is the message's until the slot is
// taken again; here it counts until its micro-batch's work has ended.
void describe_memory(const Program& program, std::vector<TraceNode>& nodes) {
  int last_work = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (program.graph.nodes[i].phase != Phase::update) last_work = static_cast<int>(i);
  for (const ArenaBlock& block : program.memory.blocks) {
    const bool kept = block.region == Region::kept;
    const int last = std::min(block.last, kept ? last_work : static_cast<int>(nodes.size()) - 1);
    for (int i = block.first; i <= last; ++i) {
      TraceNode& node = nodes[static_cast<std::size_t>(i)];
      (kept ? node.kept_bytes : node.arena_bytes) += static_cast<double>(block.bytes);
      if (kept && i < last) node.kept_after += static_cast<double>(block.bytes);
    }
  }
}

std::vector<TraceNode> describe(const Program& program, const Mesh& mesh, const MeshPlace& place) {
  std::vector<TraceNode> nodes(program.graph.nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = program.graph.nodes[i];
    TraceNode& described = nodes[i];
    described.name = node.op->name();
    if (!program.kernels[i]) continue;  // a view
    described.category = category_of(node);
    if (node.layer >= 0) {
      described.layer = program.graph.layers[static_cast<std::size_t>(node.layer)].id;
      described.group = fmt::format("{} {}", name_of(node.phase), described.layer);
    }
    described.kernel = program.kernels[i]->implementation();
    described.flops = program.flops(node);
    described.bytes = program.bytes_moved(node);
    if (exchange_of(node) != nullptr) describe_exchange(program, i, mesh, place, described);
  }
  describe_memory(program, nodes);
  return nodes;
}

}  // namespace

std::vector<TraceRank> trace_ranks_of(const ParallelModel& model) {
  const Mesh& mesh = model.plan().mesh;
  std::vector<TraceRank> ranks;
  for (int here = 0; here < model.ranks_here(); ++here) {
    TraceRank rank{.rank = model.first_rank() + here};
    const MeshPlace place = place_of(mesh, rank.rank);
    rank.name =
        fmt::format("rank {} (data {}, stage {}, tensor {})", rank.rank, place.data, place.pipeline, place.tensor);
    for (const auto& chunk : model.chunks(here)) {
      const Program& program = chunk->training().program();
      rank.chunks.push_back(describe(program, mesh, place));
      rank.fixed_bytes += static_cast<double>(program.memory.total_bytes() - program.memory.bytes(Region::arena) -
                                              program.memory.bytes(Region::kept));
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

// --- as text

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TraceNode, name, category, layer, group, kernel, flops, bytes, axis, ranks,
                                   sent_bytes, aside, joins, made_by, is_message, sends, message, arena_bytes,
                                   kept_bytes, kept_after)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TraceRank, rank, name, fixed_bytes, chunks)

std::string to_text(const std::vector<TraceRank>& ranks) {
  return nlohmann::json(ranks).dump();
}

std::vector<TraceRank> trace_ranks_from(const std::string& text) {
  return nlohmann::json::parse(text).get<std::vector<TraceRank>>();
}

}  // namespace trifold
