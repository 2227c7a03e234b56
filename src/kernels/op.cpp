#include "kernels/op.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {

double Op::flops(std::span<const TensorDesc> /*in*/, std::span<const TensorDesc> out) const {
  return out.empty() ? 0.0 : static_cast<double>(out[0].elements());
}

void Op::check_shapes(const OpTensors& tensors) const {
  tensors.fail("has no rule for its shapes: its op needs a check_shapes()");
}

std::string to_string(const Op& op) {
  const std::string attributes = op.attributes();
  return attributes.empty() ? std::string(op.name()) : std::string(op.name()) + " " + attributes;
}

}  // namespace trifold
