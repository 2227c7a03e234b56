#include "kernels/op.h"

namespace trifold {

double Op::flops(std::span<const TensorDesc> /*in*/, std::span<const TensorDesc> out) const {
  return out.empty() ? 0.0 : static_cast<double>(out[0].elements());
}

std::string to_string(const Op& op) {
  const std::string attributes = op.attributes();
  return attributes.empty() ? std::string(op.name()) : std::string(op.name()) + " " + attributes;
}

}  // namespace trifold
