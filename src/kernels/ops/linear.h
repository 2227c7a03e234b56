// A fully connected layer and its two gradients. x [N,I], w [O,I], y [N,O].
#pragma once

#include "kernels/op.h"

namespace trifold {

// in: x, w, [bias [O]]; out: y
struct LinearForward final : Op {
  bool bias = false;
  bool relu = false;

  std::string_view name() const override { return "linear.forward"; }
  std::string attributes() const override;
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const override;
  bool keeps_f32(Side side, int index) const override { return side == Side::in && index == 2; }
};

// in: dy, w; out: dx
struct LinearBackwardData final : Op {
  std::string_view name() const override { return "linear.backward_data"; }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const override;
};

// in: x, dy; out: dw, [dbias [O]]
struct LinearBackwardWeights final : Op {
  bool bias = false;

  std::string_view name() const override { return "linear.backward_weights"; }
  std::string attributes() const override { return bias ? "bias" : ""; }
  bool keeps_f32(Side side, int) const override { return side == Side::out; }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const override;
};

}  // namespace trifold
