// linear: a fully connected layer. x [N,I] -> y [N,out]. Its part in blocks is parallel/tensor/linear_in_blocks.cpp.
#include "kernels/ops/linear.h"

#include <fmt/format.h>

#include "kernels/ops/grid.h"
#include "layers/weight_init.h"

namespace trifold {
namespace {

class LinearLayer final : public Layer {
 public:
  explicit LinearLayer(const FieldValues& values)
      : out_features_(values.integer("out")), bias_(values.boolean("bias")), init_(values.text("init")) {}

  Shape infer_shape(std::span<const Shape> in) const override {
    if (in[0].rank() != 2)
      throw ShapeError{
          fmt::format("needs an input of [N, F] but gets {}: put a flatten layer before it", to_string(in[0])), 0};
    return {in[0][0], out_features_};
  }

  std::vector<ParameterSpec> parameters(std::span<const Shape> in) const override {
    const std::int64_t in_features = in[0][1];
    const WeightInit init = weight_init(init_, in_features, out_features_);
    std::vector<ParameterSpec> specs = {{.name = "weight", .shape = {out_features_, in_features}, .init = init.weight}};
    if (bias_) specs.push_back({.name = "bias", .shape = {out_features_}, .init = init.bias, .decay = false});
    return specs;
  }

  bool sums_over_channels() const override { return true; }

  std::vector<LayerSplit> splits(std::span<const Shape> in, int parts) const override {
    std::vector<LayerSplit> found;
    if (out_features_ % parts == 0) found.push_back(LayerSplit::out_channels);
    if (in[0][1] % parts == 0) found.push_back(LayerSplit::in_channels);
    const int side = grid_side(parts);
    if (side > 1 && in[0][0] % side == 0 && in[0][1] % side == 0 && out_features_ % side == 0)
      found.push_back(LayerSplit::blocks);
    return found;
  }

  void narrow(const LayerPart& part) override {
    if (part.split == LayerSplit::out_channels) out_features_ /= part.count;
    if (part.split == LayerSplit::in_channels) adds_bias_ = part.index == 0;  // once in the sum
  }

  void forward(ForwardBuilder& b) const override {
    LinearForward op;
    op.bias = bias_ && adds_bias_;
    std::vector<ValueId> in = {b.in(), b.parameter("weight")};
    if (op.bias) in.push_back(b.parameter("bias"));
    b.emit(op, in, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
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
  std::string init_;
  bool adds_bias_ = true;
};

const RegisterLayer register_linear({
    .name = "linear",
    .help = "fully connected: every output is a weighted sum of all inputs",
    .fields =
        {{.name = "out", .minimum = 1, .help = "output features"},
         {.name = "bias", .kind = FieldKind::boolean, .fallback = true, .help = "add a trained number to each output"},
         init_field("uniform")},
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> { return std::make_unique<LinearLayer>(values); },
});

}  // namespace
}  // namespace trifold
