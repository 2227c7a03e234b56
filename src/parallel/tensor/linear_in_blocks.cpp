// linear in blocks, as SUMMA: a row of the grid gathers x, a column the weights, for as long as the product takes;
// partial gradients are summed over the other line. x [N/side, I/side] -> y [N/side, out/side].
#include "kernels/ops/grid.h"
#include "kernels/ops/linear.h"
#include "parallel/tensor/layer_parts.h"

namespace trifold {
namespace {

class LinearInBlocks final : public Layer {
 public:
  LinearInBlocks(const FieldValues& values, const LayerPart& part)
      : grid_{grid_side(part.count), part.index},
        out_features_(values.integer("out") / grid_.side),
        bias_(values.boolean("bias")) {}

  Shape infer_shape(std::span<const Shape> in) const override { return {in[0][0], out_features_}; }

  std::vector<ParameterSpec> parameters(std::span<const Shape> in) const override {
    std::vector<ParameterSpec> specs = {{.name = "weight", .shape = {out_features_, in[0][1]}}};
    if (bias_) specs.push_back({.name = "bias", .shape = {out_features_}});
    return specs;
  }

  void forward(ForwardBuilder& b) const override {
    LinearForward op;
    op.bias = bias_;
    std::vector<ValueId> in = {row_x(b, Phase::forward), column_w(b, Phase::forward)};
    if (bias_) in.push_back(b.parameter("bias"));
    b.emit(op, in, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
    if (b.wants_gradient()) {
      const ValueId w = column_w(b, Phase::backward_input);
      const ValueId dx = b.make_in_gradient();
      const ValueId parts = b.make("row's dx", {b.shape(dx)[0], b.shape(w)[1]});
      b.emit(LinearBackwardData(), {b.out_gradient(), w}, {parts}, Phase::backward_input);
      b.emit(on_line<GridSumScatter>(GridLine::row), {parts}, {dx}, Phase::backward_input);
    }
    LinearBackwardWeights weights;
    weights.bias = bias_;
    const ValueId x = row_x(b, Phase::backward_weight);
    const ValueId dw = b.parameter_gradient("weight");
    std::vector<ValueId> parts = {b.make("column's dw", {b.shape(dw)[0], b.shape(x)[1]})};
    if (bias_) parts.push_back(b.make("row's db", {out_features_}));
    b.emit(weights, {x, b.out_gradient()}, parts, Phase::backward_weight);
    b.emit(on_line<GridSumScatter>(GridLine::column), {parts[0]}, {dw}, Phase::backward_weight);
    if (bias_)
      b.emit(on_line<GridSum>(GridLine::column), {parts[1]}, {b.parameter_gradient("bias")}, Phase::backward_weight);
  }

 private:
  template <class T>
  T on_line(GridLine line) const {
    T op;
    op.grid = grid_;
    op.line = line;
    return op;
  }

  // All features of this rank's samples; all inputs' weights of this rank's outputs. They are gathered anew for each
  // product, so that a rank keeps its blocks only.
  ValueId row_x(LayerBuilder& b, Phase phase) const { return gathered(b, b.in(), GridLine::row, "row's x", phase); }
  ValueId column_w(LayerBuilder& b, Phase phase) const {
    return gathered(b, b.parameter("weight"), GridLine::column, "column's weight", phase);
  }
  ValueId gathered(LayerBuilder& b, ValueId block, GridLine line, const char* name, Phase phase) const {
    const Shape shape = b.shape(block);
    const ValueId all = b.make(name, {shape[0], shape[1] * grid_.side});
    b.emit(on_line<GridGather>(line), {block}, {all}, phase);
    return all;
  }

  TensorGrid grid_;
  std::int64_t out_features_;  // of this rank's blocks
  bool bias_;
};

const RegisterLayerPart register_linear_in_blocks({
    .layer = "linear",
    .split = LayerSplit::blocks,
    .make = [](const FieldValues& values, const LayerPart& part) -> std::unique_ptr<Layer> {
      return std::make_unique<LinearInBlocks>(values, part);
    },
});

}  // namespace
}  // namespace trifold
