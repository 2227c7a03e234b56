#include "kernels/ops/dropout.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {

void DropoutForward::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(1);
}
void DropoutBackward::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(relu ? 2 : 1);
}

}  // namespace trifold
