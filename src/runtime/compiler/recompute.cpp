#include "runtime/compiler/recompute.h"

#include <algorithm>

#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"

namespace trifold {
namespace {

// Reading an activation and writing it again moves 8 bytes an element. A gradient that does this much arithmetic for
// each byte of the activation takes 20 times as long or more on the processors we measured (10 GB/s, 100 Gflop/s).
constexpr double kCheapFlopsPerByte = 200;

class RecomputePass {
 public:
  RecomputePass(Graph graph, Recompute which) : graph_(std::move(graph)), which_(which) {
    forward_end_ = static_cast<int>(std::ranges::find_if(graph_.nodes, is_backward) - graph_.nodes.begin());
  }

  Graph run() {
    std::vector<std::pair<int, Node>> copies;  // before which node
    for (int i = 0; i < forward_end_; ++i) {
      if (!can_be_repeated(node(i))) continue;
      const ValueId kept = node(i).out[0];
      const std::vector<int> readers = backward_readers(kept);
      if (kept == graph_.output || readers.empty() || !inputs_are_there(node(i), readers.front())) continue;
      if (which_ == Recompute::cheap && flops_per_byte(kept, readers) < kCheapFlopsPerByte) continue;

      Value again = graph_[kept];
      again.name += " again";
      Node copy = node(i);
      copy.out[0] = graph_.add_value(std::move(again));
      copy.phase = node(readers.front()).phase;
      for (const int reader : readers) std::ranges::replace(node(reader).in, kept, copy.out[0]);
      copies.emplace_back(readers.front(), std::move(copy));
    }
    insert(std::move(copies));
    return std::move(graph_);
  }

 private:
  static bool is_backward(const Node& node) { return node.phase != Phase::forward; }
  Node& node(int index) { return graph_.nodes[static_cast<std::size_t>(index)]; }

  // A pass over one tensor, with nothing but that tensor to write.
  static bool can_be_repeated(const Node& node) {
    if (const auto* norm = dynamic_cast<const BatchNormApply*>(node.op.get())) return !norm->residual;
    return dynamic_cast<const ActivationForward*>(node.op.get()) != nullptr;
  }

  std::vector<int> backward_readers(ValueId value) {
    std::vector<int> found;
    for (int i = forward_end_; i < static_cast<int>(graph_.nodes.size()); ++i)
      if (std::ranges::find(node(i).in, value) != node(i).in.end()) found.push_back(i);
    return found;
  }

  // What the pass reads is in memory at node `at` whether or not the pass is repeated there.
  bool inputs_are_there(const Node& pass, int at) {
    return std::ranges::all_of(pass.in, [&](ValueId in) {
      if (graph_[in].role != Role::activation) return true;
      const std::vector<int> readers = backward_readers(in);
      return !readers.empty() && readers.back() >= at;
    });
  }

  double flops_per_byte(ValueId value, const std::vector<int>& readers) {
    const auto described = [&](const std::vector<ValueId>& ids) {
      std::vector<TensorDesc> descs;
      for (const ValueId id : ids) descs.push_back({graph_[id].shape, graph_[id].dtype, {}});
      return descs;
    };
    double flops = 0;
    for (const int reader : readers)
      flops += node(reader).op->flops(described(node(reader).in), described(node(reader).out));
    return flops / static_cast<double>(TensorDesc{graph_[value].shape, graph_[value].dtype, {}}.bytes());
  }

  void insert(std::vector<std::pair<int, Node>> copies) {
    std::ranges::stable_sort(copies, {}, [](const auto& copy) { return copy.first; });
    std::vector<Node> nodes;
    auto next = copies.begin();
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      for (; next != copies.end() && next->first == i; ++next) nodes.push_back(std::move(next->second));
      nodes.push_back(std::move(node(i)));
    }
    graph_.nodes = std::move(nodes);
  }

  Graph graph_;
  Recompute which_;
  int forward_end_ = 0;
};

}  // namespace

const char* name_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::never:
      return "never";
    case Recompute::cheap:
      return "cheap";
    case Recompute::always:
      return "always";
  }
  return "?";
}

Graph recompute_activations(Graph graph, Recompute which) {
  return which == Recompute::never ? std::move(graph) : RecomputePass(std::move(graph), which).run();
}

}  // namespace trifold
