// global_avg_pool: the mean of each channel's whole image. x [N,C,H,W] -> y [N,C].
#include <fmt/format.h>

#include "kernels/ops/pooling.h"
#include "layers/layer.h"

namespace trifold {
namespace {

class GlobalAvgPoolLayer final : public Layer {
 public:
  Shape infer_shape(std::span<const Shape> in) const override {
    if (in[0].rank() != 4)
      throw ShapeError{fmt::format("needs an input of [N, C, H, W] but gets {}", to_string(in[0])), 0};
    return {in[0][0], in[0][1]};
  }

  bool is_channel_local() const override { return true; }
  bool sums_over_rows() const override { return true; }
  void narrow(const LayerPart& part) override {
    if (part.split == LayerSplit::rows) whole_pixels_ = part.in[0].whole.pixels();
  }

  void forward(ForwardBuilder& b) const override {
    GlobalAvgPoolForward op;
    op.pixels = whole_pixels_;
    b.emit(op, {b.in()}, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
    if (!b.wants_gradient()) return;
    GlobalAvgPoolBackward op;
    op.pixels = whole_pixels_;
    b.emit(op, {b.out_gradient()}, {b.make_in_gradient()}, Phase::backward_input);
  }

 private:
  std::int64_t whole_pixels_ = 0;  // where a rank has some rows of the image; 0: it has them all
};

const RegisterLayer register_global_avg_pool({
    .name = "global_avg_pool",
    .help = "the mean of each channel over the whole image",
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> { return std::make_unique<GlobalAvgPoolLayer>(); },
});

}  // namespace
}  // namespace trifold
