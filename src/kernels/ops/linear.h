// A fully connected layer and its two gradients. x [N,I], w [O,I], y [N,O].
#pragma once

#include "kernels/ops/product.h"

namespace trifold {

// What the matrix product and its gradients have in common.
struct MatrixProduct : Product {
  OpKind kind() const override { return OpKind::matrix_product; }
  LayoutRule layout_rule() const override { return LayoutRule::matrix_product; }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const override;

 protected:
  void check_operands(const OpTensors& tensors) const;  // all but the bias
};

// in: x, w, [bias [O]]; out: y
struct LinearForward final : MatrixProduct {
  bool bias = false;
  bool relu = false;

  std::string_view name() const override { return "linear.forward"; }
  std::string attributes() const override;
  ProductPass pass() const override { return ProductPass::forward; }
  void check_shapes(const OpTensors& tensors) const override;
  bool ends_with_relu() const override { return relu; }
  bool keeps_f32(Side side, int index) const override { return side == Side::in && index == 2; }
};

// in: dy, w; out: dx
struct LinearBackwardData final : MatrixProduct {
  std::string_view name() const override { return "linear.backward_data"; }
  ProductPass pass() const override { return ProductPass::backward_data; }
  void check_shapes(const OpTensors& tensors) const override;
};

// in: x, dy; out: dw, [dbias [O]]
struct LinearBackwardWeights final : MatrixProduct {
  bool bias = false;

  std::string_view name() const override { return "linear.backward_weights"; }
  std::string attributes() const override { return bias ? "bias" : ""; }
  ProductPass pass() const override { return ProductPass::backward_weights; }
  void check_shapes(const OpTensors& tensors) const override;
  bool keeps_f32(Side side, int) const override { return side == Side::out; }
};

}  // namespace trifold
