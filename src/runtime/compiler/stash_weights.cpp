#include "runtime/compiler/stash_weights.h"

#include <map>
#include <memory>

#include "kernels/ops/shape_ops.h"

namespace trifold {

void stash_weights(LaidOutGraph& laid_out, const FlatLayout& layout, GivenPlaces& given) {
  if (layout.bytes == 0) return;
  Graph& graph = laid_out.graph;
  const auto add_flat = [&](const char* name, Role role) {
    const Shape shape{static_cast<std::int64_t>(layout.bytes / sizeof(float))};
    laid_out.descs.push_back({shape, DType::f32, {}});
    return graph.add_value({name, shape, DType::f32, role});
  };
  const ValueId parameters = add_flat("parameters", Role::parameter);
  const ValueId stash = add_flat("stashed parameters", Role::activation);
  given.fixed.push_back({parameters, {Region::parameters, 0, layout.bytes}});

  std::map<ValueId, ValueId> stashed;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const ValueId value = graph.parameters[i].value;
    if (graph[value].role != Role::parameter) continue;
    Value copy = graph[value];
    copy.name += " stashed";
    copy.role = Role::activation;
    laid_out.descs.push_back(TensorDesc(laid_out.descs[static_cast<std::size_t>(value)]));
    stashed[value] = graph.add_value(std::move(copy));
    given.packed.push_back({stashed[value], stash, layout.offsets[i]});
  }
  for (Node& node : graph.nodes)
    for (ValueId& in : node.in)
      if (const auto found = stashed.find(in); found != stashed.end()) in = found->second;
  graph.nodes.insert(graph.nodes.begin(),
                     Node{std::make_shared<const Cast>(), {parameters}, {stash}, Phase::forward, -1});
}

}  // namespace trifold
