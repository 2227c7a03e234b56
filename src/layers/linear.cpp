// linear: a fully connected layer. x [N,I] -> y [N,out].
#include "kernels/ops/linear.h"

#include <fmt/format.h>

#include "layers/layer.h"

namespace trifold {
namespace {

class LinearLayer final : public Layer {
 public:
  explicit LinearLayer(const FieldValues& values)
      : out_features_(values.integer("out")), bias_(values.boolean("bias")) {}

  Shape infer_shape(std::span<const Shape> in) const override {
    if (in[0].rank() != 2)
      throw ShapeError{
          fmt::format("needs an input of [N, F] but gets {}: put a flatten layer before it", to_string(in[0])), 0};
    return {in[0][0], out_features_};
  }

  std::vector<ParameterSpec> parameters(std::span<const Shape> in) const override {
    const std::int64_t in_features = in[0][1];
    std::vector<ParameterSpec> specs = {
        {.name = "weight",
         .shape = {out_features_, in_features},
         .init = {.kind = Init::Kind::kaiming_uniform, .fan_in = in_features, .fan_out = out_features_}}};
    if (bias_) specs.push_back({.name = "bias", .shape = {out_features_}, .decay = false});
    return specs;
  }

  bool sums_over_channels() const override { return true; }

  std::vector<LayerSplit> splits(std::span<const Shape> in, int parts) const override {
    std::vector<LayerSplit> found;
    if (out_features_ % parts == 0) found.push_back(LayerSplit::out_channels);
    if (in[0][1] % parts == 0) found.push_back(LayerSplit::in_channels);
    return found;
  }

  void narrow(const LayerPart& part) override {
    if (part.split == LayerSplit::in_channels)
      adds_bias_ = part.index == 0;  // once in the sum
    else
      out_features_ /= part.count;
  }

  void forward(LayerBuilder& b) const override {
    LinearForward op;
    op.bias = bias_ && adds_bias_;
    std::vector<ValueId> in = {b.in(), b.parameter("weight")};
    if (op.bias) in.push_back(b.parameter("bias"));
    b.emit(op, in, {b.out()});
  }

  void backward(LayerBuilder& b) const override {
    if (b.wants_gradient())
      b.emit(LinearBackwardData(), {b.out_gradient(), b.parameter("weight")}, {b.make_in_gradient()},
             Phase::backward_input);
    LinearBackwardWeights weights;
    weights.bias = bias_;
    std::vector<ValueId> out = {b.parameter_gradient("weight")};
    if (bias_) out.push_back(b.parameter_gradient("bias"));
    b.emit(weights, {b.in(), b.out_gradient()}, out, Phase::backward_weight);
  }

 private:
  std::int64_t out_features_;
  bool bias_;
  bool adds_bias_ = true;
};

const RegisterLayer registration({
    .name = "linear",
    .help = "fully connected: every output is a weighted sum of all inputs",
    .fields = {{.name = "out", .minimum = 1, .help = "output features"},
               {.name = "bias", .kind = FieldKind::boolean, .fallback = true}},
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> { return std::make_unique<LinearLayer>(values); },
});

}  // namespace
}  // namespace trifold
