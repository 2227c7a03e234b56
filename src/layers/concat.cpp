// concat: two or more inputs side by side along channels. [N,C1,...], [N,C2,...] -> [N,C1+C2,...].
#include <fmt/format.h>

#include "kernels/ops/shape_ops.h"
#include "layers/layer.h"

namespace trifold {
namespace {

class ConcatLayer final : public Layer {
 public:
  Shape infer_shape(std::span<const Shape> in) const override {
    if (in.size() < 2) throw ShapeError{"needs two or more inputs", {}};
    if (in[0].rank() < 2) throw ShapeError{"needs inputs of [N, C, H, W] or [N, F]", 0};
    Shape whole = in[0];
    for (std::size_t i = 1; i < in.size(); ++i) {
      Shape like_first = in[i];
      if (in[i].rank() == in[0].rank()) like_first[1] = in[0][1];
      if (like_first != in[0])
        throw ShapeError{fmt::format("joins inputs that differ in channels only, but input 1 is {} and input {} is {}",
                                     to_string(in[0]), i + 1, to_string(in[i])),
                         static_cast<int>(i)};
      whole[1] += in[i][1];
    }
    return whole;
  }

  std::optional<RowWindow> row_window() const override { return RowWindow{}; }

  void forward(ForwardBuilder& b) const override {
    std::vector<ValueId> in;
    for (int i = 0; i < b.in_count(); ++i) in.push_back(b.in(i));
    b.emit(Concat(), in, {b.out()});
  }

  void backward(GradientBuilder& b) const override {
    SplitChannels op;
    std::vector<ValueId> out;
    std::int64_t first_channel = 0;
    for (int i = 0; i < b.in_count(); ++i) {
      const std::int64_t channels = b.shape(b.in(i)).channels();
      if (b.wants_gradient(i)) {
        op.first_channel.push_back(first_channel);
        out.push_back(b.make_in_gradient(i));
      }
      first_channel += channels;
    }
    if (!out.empty()) b.emit(op, {b.out_gradient()}, out, Phase::backward_input);
  }
};

const RegisterLayer register_concat({
    .name = "concat",
    .help = "two or more inputs joined along channels",
    .inputs = kAnyInputs,
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> { return std::make_unique<ConcatLayer>(); },
});

}  // namespace
}  // namespace trifold
