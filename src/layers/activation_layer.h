// What the element-wise layers (relu, gelu, ...) share: the shape rule and the ops. A layer's own file gives its name,
// its fields and its function.
#pragma once

#include "kernels/ops/activation.h"
#include "layers/layer.h"

namespace trifold {

class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(Activation function, double slope = 0) : function_(function), slope_(slope) {}

  Shape infer_shape(std::span<const Shape> in) const override { return in[0]; }

  bool is_channel_local() const override { return true; }
  bool is_element_wise() const override { return true; }
  std::optional<RowWindow> row_window() const override { return RowWindow{}; }

  void forward(ForwardBuilder& b) const override {
    ActivationForward op;
    op.function = function_;
    op.slope = slope_;
    b.emit(op, {b.in()}, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
    if (!b.wants_gradient()) return;
    ActivationBackward op;
    op.function = function_;
    op.slope = slope_;
    const ValueId kept = gradient_from_output(function_) ? b.out() : b.in();
    b.emit(op, {b.out_gradient(), kept}, {b.make_in_gradient()}, Phase::backward_input);
  }

 private:
  Activation function_;
  double slope_;
};

}  // namespace trifold
