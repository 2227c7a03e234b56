#include "runtime/compiler/precision.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "kernels/ops/shape_ops.h"

namespace trifold {
namespace {

bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

class PrecisionPass {
 public:
  PrecisionPass(Graph graph, const Precision& precision) : graph_(std::move(graph)), precision_(precision) {
    nodes_ = std::exchange(graph_.nodes, {});
    if (precision_.scaling)
      graph_.loss_scale = graph_.add_value({"loss scale", Shape{kLossScaleFloats}, DType::f32, Role::state});
  }

  Graph run() {
    for (Node& node : nodes_) place(std::move(node));
    return std::move(graph_);
  }

 private:
  Value& value(ValueId id) { return graph_.values[static_cast<std::size_t>(id)]; }

  DType type_of(const Node& node) const {
    if (node.layer < 0) return precision_.type;
    return graph_.layers[static_cast<std::size_t>(node.layer)].precision.value_or(precision_.type);
  }

  void place(Node node) {
    if (node.op->is_view()) {
      value(node.out[0]).dtype = value(node.in[0]).dtype;
      if (unscaled_gradients_.contains(node.in[0])) unscaled_gradients_.insert(node.out[0]);
      graph_.nodes.push_back(std::move(node));
      return;
    }
    const DType type = type_of(node);
    for (int i = 0; i < static_cast<int>(node.in.size()); ++i) {
      ValueId& in = node.in[static_cast<std::size_t>(i)];
      if (!is_float(value(in).dtype) || value(in).role == Role::state) continue;
      const DType wanted = node.op->keeps_f32(Op::Side::in, i) ? DType::f32 : type;
      const bool scaled = unscaled_gradients_.contains(in);
      if (value(in).dtype != wanted || scaled) in = cast(in, wanted, scaled, node);
    }
    bool is_loss = false;
    for (const ValueId out : node.out) is_loss = is_loss || value(out).role == Role::report;
    for (int i = 0; i < static_cast<int>(node.out.size()); ++i) {
      const ValueId out = node.out[static_cast<std::size_t>(i)];
      const Role role = value(out).role;
      if (!is_float(value(out).dtype) || (role != Role::activation && role != Role::gradient)) continue;
      value(out).dtype = node.op->keeps_f32(Op::Side::out, i) ? DType::f32 : type;
      // Besides its report a loss makes one thing: its gradient.
      if (is_loss && precision_.scaling) unscaled_gradients_.insert(out);
    }
    graph_.nodes.push_back(std::move(node));
  }

  // Copies of activations are made anew in backward rather than kept from forward; weights are cast once.
  ValueId cast(ValueId from, DType type, bool scaled, const Node& reader) {
    const bool parameter = value(from).role == Role::parameter;
    const bool forward = parameter || reader.phase == Phase::forward;
    const auto [known, added] = casts_.try_emplace({from, type, forward}, kNoValue);
    if (!added) return known->second;
    Value copy = value(from);
    copy.name += std::string(" as ") + name_of(type);
    copy.dtype = type;
    if (parameter || copy.role == Role::input) copy.role = Role::activation;
    known->second = graph_.add_value(std::move(copy));
    Cast op;
    op.scaled = scaled;
    std::vector<ValueId> in = {from};
    if (scaled) in.push_back(graph_.loss_scale);
    graph_.nodes.push_back(
        {std::make_shared<const Cast>(op), std::move(in), {known->second}, reader.phase, reader.layer});
    return known->second;
  }

  Graph graph_;
  Precision precision_;
  std::vector<Node> nodes_;
  std::set<ValueId> unscaled_gradients_;
  std::map<std::tuple<ValueId, DType, bool>, ValueId> casts_;
};

}  // namespace

Graph assign_precision(Graph graph, const Precision& precision) {
  return PrecisionPass(std::move(graph), precision).run();
}

}  // namespace trifold
