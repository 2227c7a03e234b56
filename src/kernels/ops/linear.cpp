#include "kernels/ops/linear.h"

namespace trifold {
namespace {

double product_flops(std::int64_t rows, const Shape& weights) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(weights.elements());
}

}  // namespace

std::string LinearForward::attributes() const {
  if (bias) return relu ? "bias relu" : "bias";
  return relu ? "relu" : "";
}

double LinearForward::flops(std::span<const TensorDesc> in, std::span<const TensorDesc> /*out*/) const {
  return product_flops(in[0].shape[0], in[1].shape);
}
double LinearBackwardData::flops(std::span<const TensorDesc> in, std::span<const TensorDesc> /*out*/) const {
  return product_flops(in[0].shape[0], in[1].shape);
}
double LinearBackwardWeights::flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const {
  return product_flops(in[0].shape[0], out[0].shape);
}

}  // namespace trifold
