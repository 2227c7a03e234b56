// conv2d: two-dimensional convolution. x [N,C,H,W] -> y [N,out,H',W'].
#include "kernels/ops/conv2d.h"

#include <cmath>

#include <fmt/format.h>

#include "layers/weight_init.h"

namespace trifold {
namespace {

class Conv2dLayer final : public Layer {
 public:
  explicit Conv2dLayer(const FieldValues& values)
      : out_channels_(values.integer("out")),
        kernel_(values.pair("kernel")),
        bias_(values.boolean("bias")),
        init_(values.text("init")) {
    args_.stride = values.pair("stride");
    args_.pad = values.pair("pad");
    args_.dilation = values.pair("dilation");
    groups_ = values.integer("groups");
    if (values.text("padding") == "same") padding_fault_ = pad_to_same();
  }

  Shape infer_shape(std::span<const Shape> in) const override {
    const Shape& x = in[0];
    if (x.rank() != 4) throw ShapeError{"needs an input of [N, C, H, W]", 0};
    if (!padding_fault_.empty()) throw ShapeError{padding_fault_, {}};
    const std::int64_t groups = groups_of(x);
    if (x[1] % groups != 0 || out_channels_ % groups != 0)
      throw ShapeError{fmt::format("groups {} must divide both its {} input channels and its {} output channels",
                                   groups, x[1], out_channels_),
                       0};
    Shape y{x[0], out_channels_};
    for (int dim = 0; dim < 2; ++dim) {
      const auto d = static_cast<std::size_t>(dim);
      const std::int64_t extent =
          conv_out_extent(x[2 + dim], kernel_[d], args_.stride[d], args_.pad[d], args_.dilation[d]);
      if (extent < 1)
        throw ShapeError{fmt::format("kernel {} (dilation {}) does not fit its input's {} {} with pad {}", kernel_[d],
                                     args_.dilation[d], dim == 0 ? "height" : "width", x[2 + dim], args_.pad[d]),
                         0};
      y.push_back(extent);
    }
    return y;
  }

  std::vector<ParameterSpec> parameters(std::span<const Shape> in) const override {
    const std::int64_t in_channels = in[0][1] / groups_of(in[0]);
    const std::int64_t fan_in = in_channels * kernel_[0] * kernel_[1];
    const std::int64_t fan_out = out_channels_ / groups_of(in[0]) * kernel_[0] * kernel_[1];
    const WeightInit init = weight_init(init_, fan_in, fan_out);
    std::vector<ParameterSpec> specs = {
        {.name = "weight", .shape = {out_channels_, in_channels, kernel_[0], kernel_[1]}, .init = init.weight}};
    if (bias_) specs.push_back({.name = "bias", .shape = {out_channels_}, .init = init.bias, .decay = false});
    return specs;
  }

  bool sums_over_channels() const override { return true; }
  std::optional<RowWindow> row_window() const override {
    return RowWindow{
        .kernel = kernel_[0], .stride = args_.stride[0], .pad = args_.pad[0], .dilation = args_.dilation[0]};
  }

  std::vector<LayerSplit> splits(std::span<const Shape> in, int parts) const override {
    std::vector<LayerSplit> found;
    const bool whole_in = in[0][1] % parts == 0;
    const bool whole_out = out_channels_ % parts == 0;
    const std::int64_t groups = groups_of(in[0]);
    if (groups > 1) {
      if (groups % parts == 0) found.push_back(LayerSplit::groups);
      return found;
    }
    if (whole_out) found.push_back(LayerSplit::out_channels);
    if (whole_in) found.push_back(LayerSplit::in_channels);
    return found;
  }

  void narrow(const LayerPart& part) override {
    switch (part.split) {
      case LayerSplit::whole:
      case LayerSplit::blocks:
        return;
      case LayerSplit::in_channels:
        adds_bias_ = part.index == 0;  // once in the sum
        return;
      case LayerSplit::rows:
        args_.pad[0] = 0;
        return;
      case LayerSplit::groups:
        groups_ /= part.count;  // 0 stays 0
        [[fallthrough]];
      case LayerSplit::out_channels:
        out_channels_ /= part.count;
    }
  }

  void forward(ForwardBuilder& b) const override {
    Conv2dForward op;
    op.args = args_for(b);
    op.bias = bias_ && adds_bias_;
    std::vector<ValueId> in = {b.in(), b.parameter("weight")};
    if (op.bias) in.push_back(b.parameter("bias"));
    b.emit(op, in, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
    if (b.wants_gradient()) {
      Conv2dBackwardData data;
      data.args = args_for(b);
      b.emit(data, {b.out_gradient(), b.parameter("weight")}, {b.make_in_gradient()}, Phase::backward_input);
    }
    Conv2dBackwardWeights weights;
    weights.args = args_for(b);
    weights.bias = bias_;
    std::vector<ValueId> out = {b.parameter_gradient("weight")};
    if (bias_) out.push_back(b.parameter_gradient("bias"));
    b.emit(weights, {b.in(), b.out_gradient()}, out, Phase::backward_weight);
  }

 private:
  // As PyTorch's padding="same": the window grows the image by dilation * (kernel - 1) zeros, half of them on each
  // side. The kernels pad both sides alike, so an odd number of zeros is refused. Returns why that cannot be; nothing
  // where it can.
  std::string pad_to_same() {
    if (args_.pad != Pair{0, 0}) return "has both \"pad\" and padding \"same\"; remove one of them";
    const Pair zeros = {args_.dilation[0] * (kernel_[0] - 1), args_.dilation[1] * (kernel_[1] - 1)};
    args_.pad = {zeros[0] / 2, zeros[1] / 2};
    for (std::size_t d = 0; d < 2; ++d) {
      if (args_.stride[d] != 1)
        return fmt::format("padding \"same\" needs stride 1, not {}; use \"pad\": [{}, {}] to pad by half the kernel",
                           args_.stride[d], args_.pad[0], args_.pad[1]);
      if (zeros[d] % 2 != 0)
        return fmt::format(
            "padding \"same\" would pad its {} of kernel {} (dilation {}) by {} on one side and {} on the other; use "
            "an "
            "odd kernel, or \"pad\"",
            d == 0 ? "height" : "width", kernel_[d], args_.dilation[d], zeros[d] / 2, zeros[d] - zeros[d] / 2);
    }
    return {};
  }

  // groups 0 stands for depthwise: as many groups as input channels.
  std::int64_t groups_of(const Shape& x) const { return groups_ == 0 ? x[1] : groups_; }
  Conv2dArgs args_for(const LayerBuilder& b) const {
    Conv2dArgs args = args_;
    args.groups = groups_of(b.shape(b.in()));
    return args;
  }

  std::int64_t out_channels_;
  Pair kernel_;
  bool bias_;
  std::string init_;
  bool adds_bias_ = true;
  std::int64_t groups_;
  Conv2dArgs args_;
  std::string padding_fault_ = {};  // why the fields cannot be honoured; empty: they can
};

const RegisterLayer register_conv2d({
    .name = "conv2d",
    .help = "two-dimensional convolution",
    .fields =
        {{.name = "out", .minimum = 1, .help = "output channels"},
         {.name = "kernel", .kind = FieldKind::pair, .minimum = 1, .help = "height and width of the window"},
         {.name = "stride",
          .kind = FieldKind::pair,
          .fallback = Pair{1, 1},
          .minimum = 1,
          .help = "pixels from one window to the next"},
         {.name = "pad", .kind = FieldKind::pair, .fallback = Pair{0, 0}, .minimum = 0, .help = "zeros on each side"},
         {.name = "padding",
          .kind = FieldKind::choice,
          .fallback = std::string("pad"),
          .choices = {"pad", "same"},
          .help = "pad: as 'pad' says; same: the output is as large as the input (stride 1, odd kernels)"},
         {.name = "dilation",
          .kind = FieldKind::pair,
          .fallback = Pair{1, 1},
          .minimum = 1,
          .help = "distance between neighbouring pixels of a window"},
         {.name = "groups", .fallback = std::int64_t{1}, .minimum = 0, .help = "0: one per channel (depthwise)"},
         {.name = "bias",
          .kind = FieldKind::boolean,
          .fallback = true,
          .help = "add a trained number to each output channel"},
         init_field("he")},
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> { return std::make_unique<Conv2dLayer>(values); },
});

}  // namespace
}  // namespace trifold
