// mse: the mean of squared differences from float targets. y [N,F] and targets [N,F] -> report [2]: the loss, averaged
// over features and the global batch, and 0.
#include <fmt/format.h>

#include "kernels/ops/loss.h"
#include "layers/layer.h"

namespace trifold {
namespace {

class MseLayer final : public Layer {
 public:
  bool is_loss() const override { return true; }
  bool needs_targets() const override { return true; }

  Shape infer_shape(std::span<const Shape> in) const override {
    if (in[0].rank() != 2)
      throw ShapeError{
          fmt::format("needs predictions of [N, F] but gets {}: put a flatten layer before it", to_string(in[0])), 0};
    return {2};
  }

  void forward(ForwardBuilder& b) const override {
    const Shape predictions = b.shape(b.in());  // a copy: making values may move the graph's own
    MeanSquares op;
    op.gradient = b.mode() == Mode::train;
    op.global_batch = b.context().global_batch;
    std::vector<ValueId> out = {b.out()};
    if (op.gradient) out.push_back(b.make("gradient", predictions));
    b.emit(op, {b.in(), b.targets(), b.labels()}, out);
  }

  void backward(GradientBuilder& b) const override {
    if (b.wants_gradient()) b.set_in_gradient(0, b.made("gradient"));
  }
};

const RegisterLayer register_mse({
    .name = "mse",
    .help = "loss: the mean of squared differences from float targets",
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> { return std::make_unique<MseLayer>(); },
});

}  // namespace
}  // namespace trifold
