#include "layers/layer_figures.h"

namespace trifold {

std::vector<LayerFigures> layer_figures(const Graph& graph) {
  std::vector<LayerFigures> rows;
  for (const LayerInfo& layer : graph.layers) {
    LayerFigures row{layer.id, layer.type, graph[layer.out].shape};
    for (const int index : layer.parameters) {
      const Value& value = graph[graph.parameters[static_cast<std::size_t>(index)].value];
      if (value.role == Role::parameter) row.parameters += value.shape.elements();
    }
    row.activation_bytes = TensorDesc{row.shape, graph[layer.out].dtype, {}}.bytes();
    rows.push_back(row);
  }
  const auto descs = [&](const std::vector<ValueId>& ids) {
    std::vector<TensorDesc> found;
    for (const ValueId id : ids) found.push_back({graph[id].shape, graph[id].dtype, {}});
    return found;
  };
  for (const Node& node : graph.nodes) {
    if (node.op->is_view()) continue;
    const double flops = node.op->flops(descs(node.in), descs(node.out));
    LayerFigures& row = rows[static_cast<std::size_t>(node.layer)];
    row.training_flops += flops;
    if (node.phase == Phase::forward) row.forward_flops += flops;
  }
  return rows;
}

}  // namespace trifold
