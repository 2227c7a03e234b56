#include "runtime/compiler/recompute_stage.h"

#include <algorithm>

#include "kernels/ops/collective.h"
#include "runtime/compiler/cheapest_cut.h"

namespace trifold {
namespace {

class StageRepeater {
 public:
  explicit StageRepeater(LaidOutGraph& laid_out)
      : laid_out_(laid_out), graph_(laid_out.graph), again_(graph_.values.size(), kNoValue) {}

  void run() {
    const auto first_backward = [&] { return std::ranges::find_if_not(graph_.nodes, is_forward); };
    if (first_backward() == graph_.nodes.end()) return;
    find_wanted(find_repeatable());
    std::vector<Node> repeats;
    for (const Node& node : graph_.nodes)
      if (is_forward(node) && makes_wanted(node)) repeats.push_back(repeat_of(node));
    for (Node& node : graph_.nodes)
      if (!is_forward(node))
        for (ValueId& in : node.in) in = again(in);
    graph_.nodes.insert(first_backward(), std::make_move_iterator(repeats.begin()),
                        std::make_move_iterator(repeats.end()));
  }

 private:
  static bool is_forward(const Node& node) { return node.phase == Phase::forward; }
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

  bool may_run_twice(const Node& node) const {
    if (!node.op->may_run_twice()) return false;
    if (graph_.rows_differ && node.op->kind() == OpKind::exchange) return false;
    return std::ranges::all_of(node.out, [&](ValueId id) { return graph_[id].role == Role::activation; });
  }

  // By value: made by a node that may run twice, and not kept. Every way from what cannot be made again to what
  // backward work reads leads through something that is kept.
  std::vector<bool> find_repeatable() const {
    CutProblem problem;
    for (const TensorDesc& desc : laid_out_.descs) problem.costs.push_back(static_cast<std::int64_t>(desc.bytes()));
    std::vector<bool> made(graph_.values.size(), false);
    std::vector<bool> repeatable(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      if (is_forward(node)) {
        const bool twice = may_run_twice(node);
        for (const ValueId out : node.out) {
          made[index(out)] = graph_[out].role == Role::activation;
          repeatable[index(out)] = twice;
          if (!twice && made[index(out)]) problem.sources.push_back(out);
          if (twice)
            for (const ValueId in : node.in)
              if (made[index(in)]) problem.edges.emplace_back(in, out);
        }
        if (dynamic_cast<const Send*>(node.op.get()) != nullptr) problem.costs[index(node.in[0])] = 0;
      } else {
        for (const ValueId in : node.in)
          if (made[index(in)]) problem.sinks.push_back(in);
      }
    }
    const std::vector<bool> kept = cheapest_cut(problem);
    for (std::size_t id = 0; id < kept.size(); ++id) repeatable[id] = repeatable[id] && !kept[id];
    return repeatable;
  }

  // By backward work, or by a repeated node.
  void find_wanted(const std::vector<bool>& repeatable) {
    wanted_.assign(graph_.values.size(), false);
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node)
      if (!is_forward(*node) || makes_wanted(*node))
        for (const ValueId in : node->in) wanted_[index(in)] = repeatable[index(in)];
  }

  bool makes_wanted(const Node& node) const {
    return std::ranges::any_of(node.out, [&](ValueId id) { return wanted_[index(id)]; });
  }

  ValueId again(ValueId id) const { return again_[index(id)] == kNoValue ? id : again_[index(id)]; }

  Node repeat_of(const Node& node) {
    Node repeat = node;
    repeat.phase = Phase::backward_input;
    repeat.repeats_forward = true;
    for (ValueId& in : repeat.in) in = again(in);
    for (ValueId& out : repeat.out) out = make_again(out);
    return repeat;
  }

  // A node may also make what is kept: that is read where it was kept.
  ValueId make_again(ValueId id) {
    Value value = graph_[id];
    value.name += " repeated";
    laid_out_.descs.push_back(TensorDesc(laid_out_.descs[index(id)]));
    const ValueId repeated = graph_.add_value(std::move(value));
    if (wanted_[index(id)]) again_[index(id)] = repeated;
    return repeated;
  }

  LaidOutGraph& laid_out_;
  Graph& graph_;
  std::vector<bool> wanted_;
  std::vector<ValueId> again_;  // what backward work reads in a value's place
};

}  // namespace

void recompute_stage(LaidOutGraph& laid_out) {
  StageRepeater(laid_out).run();
}

}  // namespace trifold
