// flatten: all of a sample in one row. x [N,C,H,W] -> y [N, C*H*W], the same memory.
#include "kernels/ops/shape_ops.h"
#include "layers/layer.h"

namespace trifold {
namespace {

class FlattenLayer final : public Layer {
 public:
  Shape infer_shape(std::span<const Shape> in) const override {
    if (in[0].rank() < 2) throw ShapeError{"needs an input of [N, C, H, W] or [N, F]", 0};
    return {in[0].batch(), in[0].channels() * in[0].pixels()};
  }

  bool is_channel_local() const override { return true; }

  void forward(ForwardBuilder& b) const override { b.emit(Reshape(), {b.in()}, {b.out()}); }

  void backward(GradientBuilder& b) const override {
    if (!b.wants_gradient()) return;
    b.emit(Reshape(), {b.out_gradient()}, {b.make_in_gradient()}, Phase::backward_input);
  }
};

const RegisterLayer register_flatten({
    .name = "flatten",
    .help = "images as rows of features",
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> { return std::make_unique<FlattenLayer>(); },
});

}  // namespace
}  // namespace trifold
