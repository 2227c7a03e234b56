// What dropout and dropout2d share: zeros at random in training, the identity in evaluation. They differ in what is
// dropped as one: an element or a channel.
#pragma once

#include <fmt/format.h>

#include "kernels/ops/dropout.h"
#include "kernels/ops/shape_ops.h"
#include "layers/layer.h"

namespace trifold {

class DropoutLayer final : public Layer {
 public:
  enum class Drops { elements, channels };

  DropoutLayer(Drops drops, double probability) : drops_(drops), probability_(probability) {}

  Shape infer_shape(std::span<const Shape> in) const override {
    // The bound itself is a number of the right kind, so the field cannot refuse it.
    if (!(probability_ < 1)) throw ShapeError{"has p 1: that drops everything; p must be below 1", {}};
    if (drops_ == Drops::channels && in[0].rank() != 4)
      throw ShapeError{
          fmt::format("needs an input of [N, C, H, W] but gets {}: use dropout for features", to_string(in[0])), 0};
    return in[0];
  }

  bool is_channel_local() const override { return true; }
  std::optional<RowWindow> row_window() const override { return RowWindow{}; }
  void narrow(const LayerPart& part) override {
    part_ = {part.in[0].first_channel, part.in[0].first_row, part.in[0].whole.channels()};
  }

  void forward(ForwardBuilder& b) const override {
    if (b.mode() == Mode::evaluate) {
      b.emit(Reshape(), {b.in()}, {b.out()});
      return;
    }
    DropoutForward op;
    op.args = args_for(b);
    b.emit(op, {b.in()}, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
    if (!b.wants_gradient()) return;
    DropoutBackward op;
    op.args = args_for(b);
    b.emit(op, {b.out_gradient()}, {b.make_in_gradient()}, Phase::backward_input);
  }

  static Fields fields() {
    return {{.name = "p",
             .kind = FieldKind::number,
             .fallback = 0.5,
             .minimum = 0,
             .maximum = 1,
             .help = "probability of being dropped, below 1"}};
  }

 private:
  DropoutArgs args_for(const LayerBuilder& b) const {
    const Shape& x = b.shape(b.in());
    return {.probability = probability_,
            .channels = drops_ == Drops::channels,
            .layer = static_cast<std::uint32_t>(b.layer_index()),
            .first_channel = part_.first_channel,
            .first_pixel = part_.first_row * (x.rank() == 4 ? x[3] : 1),
            .whole_channels = part_.whole_channels == x.channels() ? 0 : part_.whole_channels};
  }

  // Where this part of the input lies in the whole, which is what the random numbers are drawn for.
  struct PartOfInput {
    std::int64_t first_channel = 0;
    std::int64_t first_row = 0;
    std::int64_t whole_channels = 0;  // 0: all of them are here
  };

  Drops drops_;
  double probability_;
  PartOfInput part_ = {};
};

}  // namespace trifold
