#include "kernels/ops/linear.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {

std::string LinearForward::attributes() const {
  if (bias) return relu ? "bias relu" : "bias";
  return relu ? "relu" : "";
}

double MatrixProduct::flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const {
  const auto [x, w, y] = operands_of(pass(), in, out);
  return 2.0 * static_cast<double>(x.shape[0]) * static_cast<double>(w.elements());
}

void MatrixProduct::check_operands(const OpTensors& tensors) const {
  const auto [x, w, y] = operands_of(pass(), tensors.in(), tensors.out());
  for (const OpTensor* tensor : {&x, &w, &y}) tensors.rank(*tensor, 2);
  tensors.shape(w, {y.shape[1], x.shape[1]});
  tensors.shape(y, {x.shape[0], w.shape[0]});
}

void LinearForward::check_shapes(const OpTensors& tensors) const {
  tensors.counts(bias ? 3 : 2, 1);
  check_operands(tensors);
  if (bias) tensors.channel_vector(tensors.in(2), tensors.out(0));
}
void LinearBackwardData::check_shapes(const OpTensors& tensors) const {
  tensors.counts(2, 1);
  check_operands(tensors);
}
void LinearBackwardWeights::check_shapes(const OpTensors& tensors) const {
  tensors.counts(2, bias ? 2 : 1);
  check_operands(tensors);
  if (bias) tensors.channel_vector(tensors.out(1), tensors.in(1));
}

}  // namespace trifold
