// layer_norm: the channels at each place to mean 0 and variance 1, then scaled and shifted. x [N,C,H,W], whose places
// are pixels, or [N,F] -> y of the same shape. PyTorch's nn.LayerNorm(C) of tensors whose channels come last. A place
// needs nothing of another, so tensor ranks may have rows of the images, but not channels.
#include "kernels/ops/layer_norm.h"

#include <fmt/format.h>

#include "layers/layer.h"

namespace trifold {
namespace {

class LayerNormLayer final : public Layer {
 public:
  explicit LayerNormLayer(const FieldValues& values) : eps_(values.number("eps")) {}

  Shape infer_shape(std::span<const Shape> in) const override {
    if (in[0].rank() != 4 && in[0].rank() != 2)
      throw ShapeError{fmt::format("needs an input of [N, C, H, W] or [N, F] but gets {}", to_string(in[0])), 0};
    return in[0];
  }
  std::vector<ParameterSpec> parameters(std::span<const Shape> in) const override {
    const Shape channels{in[0][1]};
    return {{.name = "weight", .shape = channels, .init = {.constant = 1}, .decay = false},
            {.name = "bias", .shape = channels, .decay = false}};
  }
  std::optional<RowWindow> row_window() const override { return RowWindow{}; }

  void forward(ForwardBuilder& b) const override {
    LayerNormForward op;
    op.eps = eps_;
    op.keep_statistics = b.mode() == Mode::train;
    std::vector<ValueId> out = {b.out()};
    if (op.keep_statistics) {
      const Shape x = b.shape(b.in());  // a copy: making values may move the graph's own
      const Shape statistics{x.batch(), x.pixels()};
      for (const char* name : {"mean", "istd"}) out.push_back(b.make(name, statistics));
    }
    b.emit(op, {b.in(), b.parameter("weight"), b.parameter("bias")}, out);
  }

  void backward(GradientBuilder& b) const override {
    const ValueId mean = b.made("mean");
    const ValueId istd = b.made("istd");
    // The parameters' gradients first: the input's may then be written over what both read.
    b.emit(LayerNormBackwardParameters{}, {b.out_gradient(), b.in(), mean, istd},
           {b.parameter_gradient("weight"), b.parameter_gradient("bias")}, Phase::backward_weight);
    if (!b.wants_gradient()) return;
    b.emit(LayerNormBackwardInput{}, {b.out_gradient(), b.in(), mean, istd, b.parameter("weight")},
           {b.make_in_gradient()}, Phase::backward_input);
  }

 private:
  double eps_;
};

const RegisterLayer register_layer_norm({
    .name = "layer_norm",
    .help = "normalises the channels at each place, then scales and shifts each channel",
    .fields =
        {{.name = "eps", .kind = FieldKind::number, .fallback = 1e-5, .minimum = 0, .help = "added to the variance"}},
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> {
      return std::make_unique<LayerNormLayer>(values);
    },
});

}  // namespace
}  // namespace trifold
