#include "kernels/ops/activation.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {

void ActivationForward::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(1);
}
void ActivationBackward::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(2);
}

}  // namespace trifold
