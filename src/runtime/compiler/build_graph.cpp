#include "runtime/compiler/build_graph.h"

#include "layers/autodiff.h"

namespace trifold {

Graph build_graph(const NetworkSpec& spec, const ModelContext& context, Mode mode, const TensorPlan& tensor) {
  ForwardGraph forward = build_forward_graph(spec, context, mode);
  forward = divide_among_tensor_ranks(std::move(forward), tensor);
  return mode == Mode::train ? add_gradients(std::move(forward)) : std::move(forward.graph);
}

}  // namespace trifold
