#include "runtime/compiler/layout_pass.h"

#include <map>
#include <utility>

#include "core/error.h"
#include "kernels/ops/shape_ops.h"

namespace trifold {
namespace {

class LayoutPass {
 public:
  LayoutPass(Graph graph, const Backend& backend, const ParameterLayouts& given) : backend_(backend) {
    result_.graph = std::move(graph);
    nodes_ = std::exchange(result_.graph.nodes, {});
    for (const Value& value : result_.graph.values) {
      result_.descs.push_back({value.shape, value.dtype, {}});
      // A parameter takes the layout of its first reader; everything else has one when it is made.
      decided_.push_back(value.role == Role::input || value.role == Role::state || value.role == Role::report);
    }
    for (const Parameter& parameter : result_.graph.parameters)
      if (const auto found = given.find(parameter.name); found != given.end()) decide(parameter.value, found->second);
  }

  LaidOutGraph run() {
    for (Node& node : nodes_) place(std::move(node));
    return std::move(result_);
  }

 private:
  TensorDesc& desc(ValueId id) { return result_.descs[static_cast<std::size_t>(id)]; }

  void decide(ValueId id, const Layout& layout) {
    if (decided_[static_cast<std::size_t>(id)]) {
      TRIFOLD_CHECK(desc(id).layout == layout, "'{}' is already {}, not {}", result_.graph[id].name,
                    to_string(desc(id).layout), to_string(layout));
      return;
    }
    desc(id).layout = layout;
    decided_[static_cast<std::size_t>(id)] = true;
  }

  void place(Node node) {
    if (node.op->is_view()) {
      decide(node.out[0], layout_of_view(node));
      result_.graph.nodes.push_back(std::move(node));
      return;
    }
    if (dynamic_cast<const Cast*>(node.op.get()) != nullptr && !decided_[static_cast<std::size_t>(node.in[0])]) {
      // A parameter in another type: it takes the layout of the first that reads the cast.
      waiting_casts_.emplace(node.out[0], std::move(node));
      return;
    }
    std::vector<TensorDesc> in;
    std::vector<TensorDesc> out;
    for (const ValueId id : node.in) in.push_back(desc(id));
    for (const ValueId id : node.out) out.push_back(desc(id));
    const LayoutChoice wanted = backend_.choose_layouts(*node.op, in, out);

    for (std::size_t i = 0; i < node.in.size(); ++i) {
      const ValueId id = node.in[i];
      if (!decided_[static_cast<std::size_t>(id)]) {
        decide(id, wanted.in[i]);
        if (auto cast = waiting_casts_.extract(id)) {
          decide(cast.mapped().in[0], wanted.in[i]);
          result_.graph.nodes.push_back(std::move(cast.mapped()));
        }
      }
      if (desc(id).layout != wanted.in[i]) node.in[i] = reordered(id, wanted.in[i], node);
    }
    // The gradient of a parameter lies as the parameter does; where the op makes it otherwise, it is reordered.
    std::vector<std::pair<ValueId, ValueId>> after;
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const ValueId id = node.out[i];
      if (result_.graph[id].role == Role::parameter_gradient) decide(id, layout_of_parameter(id));
      if (decided_[static_cast<std::size_t>(id)] && desc(id).layout != wanted.out[i]) {
        node.out[i] = copy_of(id, wanted.out[i]);
        after.emplace_back(node.out[i], id);
      } else {
        decide(id, wanted.out[i]);
      }
    }
    const Node made_by = node;
    result_.graph.nodes.push_back(std::move(node));
    for (const auto& [from, to] : after) add_reorder(from, to, made_by);
  }

  // A flattened blocked image is a row whose columns are in the image's order, and the other way round.
  Layout layout_of_view(const Node& node) {
    const TensorDesc& from = desc(node.in[0]);
    const Shape& to = result_.graph[node.out[0]].shape;
    if (from.layout.order == Order::channel_block && to.rank() == 2)
      return {Order::column_block, from.layout.block, from.shape.pixels()};
    if (from.layout.order == Order::column_block && to.rank() == 4 && to.pixels() == from.layout.pixels)
      return {Order::channel_block, from.layout.block, 1};
    return from.layout;
  }

  Layout layout_of_parameter(ValueId gradient) {
    for (const Parameter& parameter : result_.graph.parameters)
      if (parameter.gradient == gradient) return desc(parameter.value).layout;
    TRIFOLD_CHECK(false, "'{}' is the gradient of no parameter", result_.graph[gradient].name);
  }

  ValueId copy_of(ValueId id, const Layout& layout) {
    const Value original = result_.graph[id];
    const Role role = original.role == Role::gradient || original.role == Role::parameter_gradient ? Role::gradient
                                                                                                   : Role::activation;
    const ValueId copy =
        result_.graph.add_value({original.name + " as " + to_string(layout), original.shape, original.dtype, role});
    result_.descs.push_back({original.shape, original.dtype, layout});
    decided_.push_back(true);
    return copy;
  }

  ValueId reordered(ValueId id, const Layout& layout, const Node& reader) {
    // Copies of activations are made anew in backward rather than kept from forward.
    const std::pair<ValueId, Phase> key = {id, reader.phase == Phase::forward ? Phase::forward : Phase::backward_input};
    const auto [first, last] = copies_.equal_range(key);
    for (auto it = first; it != last; ++it)
      if (desc(it->second).layout == layout) return it->second;
    const ValueId copy = copy_of(id, layout);
    copies_.emplace(key, copy);
    add_reorder(id, copy, reader);
    return copy;
  }

  void add_reorder(ValueId from, ValueId to, const Node& beside) {
    result_.graph.nodes.push_back({std::make_shared<const Reorder>(), {from}, {to}, beside.phase, beside.layer});
  }

  const Backend& backend_;
  LaidOutGraph result_;
  std::vector<Node> nodes_;
  std::vector<bool> decided_;
  std::multimap<std::pair<ValueId, Phase>, ValueId> copies_;
  std::map<ValueId, Node> waiting_casts_;  // by their output
};

}  // namespace

LaidOutGraph choose_layouts(Graph graph, const Backend& backend, const ParameterLayouts& given) {
  return LayoutPass(std::move(graph), backend, given).run();
}

}  // namespace trifold
