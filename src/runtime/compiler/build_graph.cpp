#include "runtime/compiler/build_graph.h"

#include "layers/autodiff.h"

namespace trifold {

Graph build_graph(const NetworkSpec& spec, const ModelContext& context, Mode mode, const TensorPlan& tensor,
                  const PassObserver& observer) {
  const auto report = [&](Pass pass, const Graph& graph) { report_pass({.pass = pass, .graph = &graph}, observer); };
  ForwardGraph forward = build_forward_graph(spec, context, mode);
  report(Pass::forward, forward.graph);
  forward = divide_among_tensor_ranks(std::move(forward), tensor);
  report(Pass::tensor, forward.graph);
  if (mode == Mode::evaluate) return std::move(forward.graph);
  Graph graph = add_gradients(std::move(forward));
  report(Pass::autodiff, graph);
  return graph;
}

}  // namespace trifold
