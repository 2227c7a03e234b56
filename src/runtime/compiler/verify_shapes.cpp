// Shapes and element types: every op's tensors are as its header in kernels/ops says, which the op itself checks.
#include <fmt/format.h>

#include "kernels/ops/op_tensors.h"
#include "runtime/compiler/verify.h"

namespace trifold {
namespace {

class NodeTensors final : public OpTensors {
 public:
  NodeTensors(const Graph& graph, const Node& node, std::string_view pass)
      : OpTensors(named(graph, node.in), named(graph, node.out)), graph_(graph), node_(node), pass_(pass) {}

  [[noreturn]] void fail(const std::string& what) const override { fail_pass(pass_, graph_, node_, what); }

 private:
  static std::vector<OpTensor> named(const Graph& graph, const std::vector<ValueId>& ids) {
    std::vector<OpTensor> tensors;
    for (const ValueId id : ids) tensors.push_back({graph[id].name, graph[id].shape, graph[id].dtype});
    return tensors;
  }

  const Graph& graph_;
  const Node& node_;
  std::string_view pass_;
};

// Statistics, losses and sums are f32; the other floats of a node are of one type, unless the op converts.
void check_float_types(const OpTensors& tensors, const Op& op) {
  const OpTensor* first = nullptr;
  const auto check = [&](Op::Side side, std::size_t index, const OpTensor& value) {
    if (value.dtype != DType::f32 && value.dtype != DType::f16 && value.dtype != DType::bf16) return;
    if (op.keeps_f32(side, static_cast<int>(index))) return tensors.type(value, DType::f32);
    if (op.takes_any_type()) return;
    if (first == nullptr) first = &value;
    if (value.dtype != first->dtype)
      tensors.fail(fmt::format("has '{}' of type {} and '{}' of type {}", first->name, name_of(first->dtype),
                               value.name, name_of(value.dtype)));
  };
  for (std::size_t i = 0; i < tensors.in().size(); ++i) check(Op::Side::in, i, tensors.in(i));
  for (std::size_t i = 0; i < tensors.out().size(); ++i) check(Op::Side::out, i, tensors.out(i));
}

}  // namespace

void verify_shapes(const Graph& graph, std::string_view pass) {
  for (const Node& node : graph.nodes) {
    const NodeTensors tensors(graph, node, pass);
    node.op->check_shapes(tensors);
    check_float_types(tensors, *node.op);
  }
}

}  // namespace trifold
