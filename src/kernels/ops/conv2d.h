// Two-dimensional convolution and its two gradients. x [N,C,H,W], w [O,C/groups,R,S], y [N,O,H',W'].
#pragma once

#include "core/fields.h"
#include "kernels/ops/product.h"

namespace trifold {

struct Conv2dArgs {
  Pair stride = {1, 1};
  Pair pad = {0, 0};
  Pair dilation = {1, 1};
  std::int64_t groups = 1;

  std::string text() const;
};

// Extent of the output along one dim (0: height, 1: width); below 1 when the kernel does not fit.
std::int64_t conv_out_extent(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                             std::int64_t dilation);

// What the convolution and its gradients have in common.
struct Convolution : Product {
  Conv2dArgs args;

  std::string attributes() const override { return args.text(); }
  OpKind kind() const override { return OpKind::convolution; }
  LayoutRule layout_rule() const override { return LayoutRule::convolution; }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const override;

 protected:
  void check_operands(const OpTensors& tensors) const;  // all but the bias
};

// in: x, w, [bias [O]]; out: y
struct Conv2dForward final : Convolution {
  bool bias = false;
  bool relu = false;  // y = max(0, y)

  std::string_view name() const override { return "conv2d.forward"; }
  std::string attributes() const override;
  ProductPass pass() const override { return ProductPass::forward; }
  void check_shapes(const OpTensors& tensors) const override;
  bool ends_with_relu() const override { return relu; }
  bool keeps_f32(Side side, int index) const override { return side == Side::in && index == 2; }
};

// in: dy, w; out: dx
struct Conv2dBackwardData final : Convolution {
  std::string_view name() const override { return "conv2d.backward_data"; }
  ProductPass pass() const override { return ProductPass::backward_data; }
  void check_shapes(const OpTensors& tensors) const override;
};

// in: x, dy; out: dw, [dbias [O]]
struct Conv2dBackwardWeights final : Convolution {
  bool bias = false;

  std::string_view name() const override { return "conv2d.backward_weights"; }
  std::string attributes() const override;
  ProductPass pass() const override { return ProductPass::backward_weights; }
  void check_shapes(const OpTensors& tensors) const override;
  bool keeps_f32(Side side, int) const override { return side == Side::out; }
};

}  // namespace trifold
