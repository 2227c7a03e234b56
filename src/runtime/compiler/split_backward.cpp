#include "runtime/compiler/split_backward.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/ops/shape_ops.h"

namespace trifold {
namespace {

// A reorder or a cast that was added for W may serve B too.
void pull_into_input_gradients(Graph& graph) {
  std::vector<bool> wanted(graph.values.size(), false);  // by B
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->phase == Phase::backward_weight &&
        std::ranges::any_of(node->out, [&](ValueId id) { return wanted[static_cast<std::size_t>(id)]; }))
      node->phase = Phase::backward_input;
    if (node->phase == Phase::backward_input)
      for (const ValueId id : node->in) wanted[static_cast<std::size_t>(id)] = true;
  }
}

// Batch norm's sums give the gradients of its parameters in B. They wait, with what else the micro-batch keeps, until
// W.
void leave_parameter_gradients_to_weights(LaidOutGraph& laid_out) {
  Graph& graph = laid_out.graph;
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    std::vector<Node> copies;
    if (node.phase == Phase::backward_input)
      for (ValueId& out : node.out) {
        if (graph[out].role != Role::parameter_gradient) continue;
        Value early = graph[out];
        early.name += " early";
        early.role = Role::gradient;
        const ValueId gradient = out;
        out = graph.add_value(std::move(early));
        laid_out.descs.push_back(laid_out.descs[static_cast<std::size_t>(gradient)]);
        copies.push_back({std::make_shared<const Cast>(), {out}, {gradient}, Phase::backward_weight, node.layer});
      }
    nodes.push_back(std::move(node));
    std::ranges::move(copies, std::back_inserter(nodes));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace

void split_backward(LaidOutGraph& laid_out) {
  pull_into_input_gradients(laid_out.graph);
  leave_parameter_gradients_to_weights(laid_out);
  std::vector<Node>& nodes = laid_out.graph.nodes;
  std::stable_partition(nodes.begin(), nodes.end(),
                        [](const Node& node) { return node.phase != Phase::backward_weight; });
}

}  // namespace trifold
