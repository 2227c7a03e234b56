// The order of a graph: what is read has been written, once, and phases follow each other.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/error.h"
#include "kernels/ops/shape_ops.h"
#include "runtime/compiler/verify.h"

namespace trifold {
namespace {

class GraphVerifier {
 public:
  GraphVerifier(const Graph& graph, std::string_view pass)
      : graph_(graph), pass_(pass), writer_(graph.values.size(), nullptr) {}

  void run() {
    for (const Node& node : graph_.nodes) {
      check_phase(node);
      for (const ValueId in : node.in) check_read(node, in);
      for (std::size_t i = 0; i < node.out.size(); ++i) check_write(node, i);
      if (graph_.loss_scale != kNoValue) check_loss_scale(node);
    }
    check_results();
    check_parameter_gradients();
  }

 private:
  const Node*& writer(ValueId id) { return writer_[static_cast<std::size_t>(id)]; }

  void check_known(const Node& node, ValueId id) const {
    if (id < 0 || id >= static_cast<ValueId>(graph_.values.size()))
      fail_pass(pass_, graph_, node, fmt::format("names value {}, which the graph does not have", id));
  }

  // Forward work runs before backward work, whatever the order of nodes: the order of nodes must say the same.
  void check_phase(const Node& node) {
    const auto order = [](Phase phase) { return phase == Phase::forward ? 0 : phase == Phase::update ? 2 : 1; };
    if (order(node.phase) < order(phase_))
      fail_pass(pass_, graph_, node,
                fmt::format("is of phase {} but comes after nodes of phase {}", name_of(node.phase), name_of(phase_)));
    phase_ = node.phase;
  }

  static bool is_there_from_the_start(Role role) {
    return role == Role::input || role == Role::parameter || role == Role::state;
  }

  void check_read(const Node& node, ValueId id) {
    check_known(node, id);
    if (writer(id) == nullptr && !is_there_from_the_start(graph_[id].role))
      fail_pass(pass_, graph_, node, fmt::format("reads '{}' before any node writes it", graph_[id].name));
  }

  void check_write(const Node& node, std::size_t index) {
    const ValueId id = node.out[index];
    check_known(node, id);
    const Value& value = graph_[id];
    const bool in_place = std::ranges::find(node.in, id) != node.in.end();
    if (std::ranges::count(node.out, id) > 1)
      fail_pass(pass_, graph_, node, fmt::format("writes '{}' as two of its outputs", value.name));
    if (is_there_from_the_start(value.role) && !(in_place && value.role == Role::state))
      fail_pass(pass_, graph_, node, fmt::format("overwrites '{}', which no node may write", value.name));
    if (writer(id) != nullptr && !in_place)
      fail_pass(pass_, graph_, node,
                fmt::format("writes '{}', which '{}' wrote before", value.name, node_name(graph_, *writer(id))));
    writer(id) = &node;
  }

  // The loss's gradient, and what is only a copy of it, may be read by the cast that multiplies it by the loss scale,
  // and by nothing else.
  void check_loss_scale(const Node& node) {
    const bool is_loss = std::ranges::any_of(node.out, [&](ValueId id) { return graph_[id].role == Role::report; });
    const bool copies = node.op->is_view() || dynamic_cast<const Reorder*>(node.op.get()) != nullptr;
    const auto* cast = dynamic_cast<const Cast*>(node.op.get());
    const bool reads_unscaled = std::ranges::any_of(node.in, [&](ValueId id) { return unscaled_.contains(id); });
    if (reads_unscaled && !copies && !(cast != nullptr && cast->scaled))
      fail_pass(pass_, graph_, node, "reads the loss's gradient before it is multiplied by the loss scale");
    for (const ValueId id : node.out)  // besides its report a loss makes one thing: its gradient
      if (graph_[id].role != Role::report && (is_loss || (reads_unscaled && copies))) unscaled_.insert(id);
  }

  void check_results() {
    for (const ValueId id : {graph_.report, graph_.output})
      if (id != kNoValue && writer(id) == nullptr && !is_there_from_the_start(graph_[id].role))
        fail_pass(pass_, fmt::format("no node writes the result '{}'", graph_[id].name));
  }

  void check_parameter_gradients() {
    for (const Parameter& parameter : graph_.parameters) {
      if (parameter.gradient == kNoValue) continue;
      const Value& value = graph_[parameter.value];
      const Value& gradient = graph_[parameter.gradient];
      if (writer(parameter.gradient) == nullptr)
        fail_pass(pass_, fmt::format("no node writes '{}', the gradient of '{}'", gradient.name, parameter.name));
      if (gradient.shape != value.shape || gradient.dtype != value.dtype)
        fail_pass(pass_,
                  fmt::format("'{}' is {} {}, but its parameter is {} {}", gradient.name, name_of(gradient.dtype),
                              to_string(gradient.shape), name_of(value.dtype), to_string(value.shape)));
    }
  }

  const Graph& graph_;
  std::string_view pass_;
  std::vector<const Node*> writer_;  // by value: the last one so far
  std::set<ValueId> unscaled_;       // gradients
  Phase phase_ = Phase::forward;
};

}  // namespace

std::string node_name(const Graph& graph, const Node& node) {
  const std::string layer = node.layer < 0 ? "" : graph.layers[static_cast<std::size_t>(node.layer)].id + " ";
  return layer + std::string(node.op->name());
}

void fail_pass(std::string_view pass, const std::string& what) {
  throw Error(Fault::runtime, fmt::format("internal error: after {}, {}", pass, what));
}

void fail_pass(std::string_view pass, const Graph& graph, const Node& node, const std::string& what) {
  fail_pass(pass, fmt::format("'{}' {}", node_name(graph, node), what));
}

void verify_pass(const PassResult& result) {
  const char* pass = noun_of(result.pass);
  if (result.program != nullptr) return verify_memory(*result.program, *result.given, *result.options, pass);
  // What is exchanged within a pack is written by several nodes, which verify_memory looks at.
  if (result.pass != Pass::partition) verify_graph(*result.graph, pass);
  if (result.laid_out != nullptr) verify_layouts(*result.laid_out, *result.options->backend, pass);
}

void verify_graph(const Graph& graph, std::string_view pass) {
  GraphVerifier(graph, pass).run();
  verify_shapes(graph, pass);
  verify_saved_values(graph, pass);
}

}  // namespace trifold
