// add: the sum of two or more inputs of one shape.
#include <fmt/format.h>

#include "kernels/ops/shape_ops.h"
#include "layers/layer.h"

namespace trifold {
namespace {

class AddLayer final : public Layer {
 public:
  Shape infer_shape(std::span<const Shape> in) const override {
    if (in.size() < 2) throw ShapeError{"needs two or more inputs", {}};
    for (std::size_t i = 1; i < in.size(); ++i)
      if (in[i] != in[0])
        throw ShapeError{fmt::format("adds inputs of one shape, but input 1 is {} and input {} is {}", to_string(in[0]),
                                     i + 1, to_string(in[i])),
                         static_cast<int>(i)};
    return in[0];
  }

  bool is_channel_local() const override { return true; }
  bool is_element_wise() const override { return true; }
  std::optional<RowWindow> row_window() const override { return RowWindow{}; }

  void forward(ForwardBuilder& b) const override {
    const Shape shape = b.shape(b.out());  // a copy: making values may move the graph's own
    const int last = b.in_count() - 1;
    ValueId sum = b.in(0);
    for (int i = 1; i <= last; ++i) {
      const ValueId next = i == last ? b.out() : b.make(fmt::format("sum{}", i), shape);
      b.emit(Add(), {sum, b.in(i)}, {next});
      sum = next;
    }
  }

  void backward(GradientBuilder& b) const override {
    for (int i = 0; i < b.in_count(); ++i)
      if (b.wants_gradient(i)) b.set_in_gradient(i, b.out_gradient());
  }
};

const RegisterLayer register_add({
    .name = "add",
    .help = "the sum of two or more inputs of one shape",
    .inputs = kAnyInputs,
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> { return std::make_unique<AddLayer>(); },
});

}  // namespace
}  // namespace trifold
