// avg_pool: the mean of each window. x [N,C,H,W] -> y [N,C,H',W'].
#include "layers/pool_window.h"

namespace trifold {
namespace {

class AvgPoolLayer final : public Layer {
 public:
  explicit AvgPoolLayer(const FieldValues& values)
      : args_(pool_args(values)), count_pad_(values.boolean("count_pad")) {}

  Shape infer_shape(std::span<const Shape> in) const override { return pool_shape(args_, in[0]); }

  bool is_channel_local() const override { return true; }
  // A mean over what lies inside would count the padding that comes with the rows.
  std::optional<RowWindow> row_window() const override {
    if (!count_pad_ && args_.pad[0] > 0) return std::nullopt;
    return pool_rows(args_, RowEdge::zero);
  }
  void narrow(const LayerPart&) override { args_.pad[0] = 0; }

  void forward(LayerBuilder& b) const override {
    AvgPoolForward op;
    op.args = args_;
    op.count_pad = count_pad_;
    b.emit(op, {b.in()}, {b.out()});
  }

  void backward(LayerBuilder& b) const override {
    if (!b.wants_gradient()) return;
    AvgPoolBackward op;
    op.args = args_;
    op.count_pad = count_pad_;
    b.emit(op, {b.out_gradient()}, {b.make_in_gradient()}, Phase::backward_input);
  }

 private:
  PoolArgs args_;
  bool count_pad_;
};

Fields avg_pool_fields() {
  Fields fields = pool_fields();
  fields.push_back({.name = "count_pad",
                    .kind = FieldKind::boolean,
                    .fallback = true,
                    .help = "padding counts as zeros; false: the mean is over what lies inside"});
  return fields;
}

const RegisterLayer registration({
    .name = "avg_pool",
    .help = "the mean of each window",
    .fields = avg_pool_fields(),
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> { return std::make_unique<AvgPoolLayer>(values); },
});

}  // namespace
}  // namespace trifold
