// max_pool: the largest value of each window. x [N,C,H,W] -> y [N,C,H',W']. Training keeps which one it was, in a byte.
#include <fmt/format.h>

#include "layers/pool_window.h"

namespace trifold {
namespace {

class MaxPoolLayer final : public Layer {
 public:
  explicit MaxPoolLayer(const FieldValues& values) : args_(pool_args(values)) {}

  Shape infer_shape(std::span<const Shape> in) const override {
    if (args_.kernel[0] * args_.kernel[1] > 256)
      throw ShapeError{
          fmt::format("kernel {}x{} is too large: a window has at most 256 places", args_.kernel[0], args_.kernel[1]),
          {}};
    return pool_shape(args_, in[0]);
  }

  bool is_channel_local() const override { return true; }
  std::optional<RowWindow> row_window() const override { return pool_rows(args_, RowEdge::lowest); }
  void narrow(const LayerPart& part) override {
    if (part.split == LayerSplit::rows) args_.pad[0] = 0;
  }

  void forward(ForwardBuilder& b) const override {
    MaxPoolForward op;
    op.args = args_;
    op.keep_argmax = b.mode() == Mode::train;
    std::vector<ValueId> out = {b.out()};
    if (op.keep_argmax) {
      // A copy: making a value may move the graph's own.
      const Shape shape = b.shape(b.out());
      out.push_back(b.make("argmax", shape, DType::u8));
    }
    b.emit(op, {b.in()}, out);
  }

  void backward(GradientBuilder& b) const override {
    if (!b.wants_gradient()) return;
    MaxPoolBackward op;
    op.args = args_;
    b.emit(op, {b.out_gradient(), b.made("argmax")}, {b.make_in_gradient()}, Phase::backward_input);
  }

 private:
  PoolArgs args_;
};

const RegisterLayer register_max_pool({
    .name = "max_pool",
    .help = "the largest value of each window",
    .fields = pool_fields(),
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> { return std::make_unique<MaxPoolLayer>(values); },
});

}  // namespace
}  // namespace trifold
