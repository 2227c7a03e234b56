// avg_pool: the mean of each window. x [N,C,H,W] -> y [N,C,H',W'].
#include <algorithm>

#include "kernels/ops/conv2d.h"
#include "layers/pool_window.h"

namespace trifold {
namespace {

class AvgPoolLayer final : public Layer {
 public:
  explicit AvgPoolLayer(const FieldValues& values)
      : args_(pool_args(values)),
        whole_rows_(pool_rows(args_, RowEdge::zero)),
        count_pad_(values.boolean("count_pad")) {}

  Shape infer_shape(std::span<const Shape> in) const override { return pool_shape(args_, in[0]); }

  bool is_channel_local() const override { return true; }
  std::optional<RowWindow> row_window() const override { return whole_rows_; }
  void narrow(const LayerPart& part) override {
    if (part.split != LayerSplit::rows) return;
    part_ = part;
    args_.pad[0] = 0;
  }

  void forward(ForwardBuilder& b) const override {
    AvgPoolForward op;
    op.args = args_;
    op.divisor = divisor();
    b.emit(op, {b.in()}, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
    if (!b.wants_gradient()) return;
    AvgPoolBackward op;
    op.args = args_;
    op.divisor = divisor();
    b.emit(op, {b.out_gradient()}, {b.make_in_gradient()}, Phase::backward_input);
  }

 private:
  PoolDivisor divisor() const {
    PoolDivisor by{.count_pad = count_pad_};
    if (!part_) return by;
    const std::int64_t height = part_->in[0].whole[2];
    const std::int64_t out_height =
        conv_out_extent(height, whole_rows_.kernel, whole_rows_.stride, whole_rows_.pad, whole_rows_.dilation);
    const RowRun read = whole_rows_.needed_for(rows_of_part(out_height, part_->index, part_->count));
    by.pad_above = std::max<std::int64_t>(0, -read.begin);
    by.pad_below = std::max<std::int64_t>(0, read.end - height);
    return by;
  }

  PoolArgs args_;
  RowWindow whole_rows_;           // of the image, whatever part of it a rank has
  std::optional<LayerPart> part_;  // of the rows; none: it has them all
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

const RegisterLayer register_avg_pool({
    .name = "avg_pool",
    .help = "the mean of each window",
    .fields = avg_pool_fields(),
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> { return std::make_unique<AvgPoolLayer>(values); },
});

}  // namespace
}  // namespace trifold
