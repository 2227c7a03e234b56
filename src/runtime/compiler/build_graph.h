// From a network to one tensor rank's graph: the forward graph, the tensor pass and, in training, autodiff.
#pragma once

#include "parallel/tensor/tensor_pass.h"
#include "runtime/compiler/passes.h"

namespace trifold {

// `observer` sees what each of them makes.
Graph build_graph(const NetworkSpec& spec, const ModelContext& context, Mode mode, const TensorPlan& tensor = {},
                  const PassObserver& observer = nullptr);

}  // namespace trifold
