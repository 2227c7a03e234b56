// linear: a fully connected layer. x [N,I] -> y [N,out]. Split by blocks it is SUMMA: a row of the grid gathers x, a
// column the weights, for as long as the product takes; partial gradients are summed over the other line.
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
    if (part.split != LayerSplit::blocks) return;
    grid_ = TensorGrid{grid_side(part.count), part.index};
    out_features_ /= grid_->side;
  }

  void forward(ForwardBuilder& b) const override {
    LinearForward op;
    op.bias = bias_ && adds_bias_;
    std::vector<ValueId> in = {whole_x(b, Phase::forward), whole_w(b, Phase::forward)};
    if (op.bias) in.push_back(b.parameter("bias"));
    b.emit(op, in, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
    if (b.wants_gradient()) {
      const ValueId w = whole_w(b, Phase::backward_input);
      const ValueId dx = b.make_in_gradient();
      const ValueId parts = grid_ ? b.make("row's dx", {b.shape(dx)[0], b.shape(w)[1]}) : dx;
      b.emit(LinearBackwardData(), {b.out_gradient(), w}, {parts}, Phase::backward_input);
      if (grid_) b.emit(on_line<GridSumScatter>(GridLine::row), {parts}, {dx}, Phase::backward_input);
    }
    LinearBackwardWeights weights;
    weights.bias = bias_;
    const ValueId x = whole_x(b, Phase::backward_weight);
    const ValueId dw = b.parameter_gradient("weight");
    const ValueId dw_parts = grid_ ? b.make("column's dw", {b.shape(dw)[0], b.shape(x)[1]}) : dw;
    std::vector<ValueId> out = {dw_parts};
    if (bias_) out.push_back(grid_ ? b.make("row's db", {out_features_}) : b.parameter_gradient("bias"));
    b.emit(weights, {x, b.out_gradient()}, out, Phase::backward_weight);
    if (!grid_) return;
    b.emit(on_line<GridSumScatter>(GridLine::column), {dw_parts}, {dw}, Phase::backward_weight);
    if (bias_)
      b.emit(on_line<GridSum>(GridLine::column), {out[1]}, {b.parameter_gradient("bias")}, Phase::backward_weight);
  }

 private:
  template <class T>
  T on_line(GridLine line) const {
    T op;
    op.grid = *grid_;
    op.line = line;
    return op;
  }

  // All features of this rank's samples; all inputs' weights of this rank's outputs. Gathered anew for each product, so
  // that a rank keeps its blocks only.
  ValueId whole_x(LayerBuilder& b, Phase phase) const {
    return grid_ ? gathered(b, b.in(), GridLine::row, "row's x", phase) : b.in();
  }
  ValueId whole_w(LayerBuilder& b, Phase phase) const {
    return grid_ ? gathered(b, b.parameter("weight"), GridLine::column, "column's weight", phase)
                 : b.parameter("weight");
  }
  ValueId gathered(LayerBuilder& b, ValueId block, GridLine line, const char* name, Phase phase) const {
    const Shape shape = b.shape(block);
    const ValueId all = b.make(name, {shape[0], shape[1] * grid_->side});
    b.emit(on_line<GridGather>(line), {block}, {all}, phase);
    return all;
  }

  std::int64_t out_features_;
  bool bias_;
  std::string init_;
  bool adds_bias_ = true;
  std::optional<TensorGrid> grid_ = {};  // where it is split by blocks
};

const RegisterLayer register_linear({
    .name = "linear",
    .help = "fully connected: every output is a weighted sum of all inputs",
    .fields = {{.name = "out", .minimum = 1, .help = "output features"},
               {.name = "bias", .kind = FieldKind::boolean, .fallback = true},
               init_field("uniform")},
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> { return std::make_unique<LinearLayer>(values); },
});

}  // namespace
}  // namespace trifold
