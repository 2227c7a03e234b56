// log_softmax: the logarithms of class probabilities. x [N,K] -> y [N,K], each row's exp(y) sums to 1.
#include <fmt/format.h>

#include "kernels/ops/loss.h"
#include "layers/layer.h"

namespace trifold {
namespace {

class LogSoftmaxLayer final : public Layer {
 public:
  Shape infer_shape(std::span<const Shape> in) const override {
    if (in[0].rank() != 2)
      throw ShapeError{
          fmt::format("needs an input of [N, K] but gets {}: put a flatten layer before it", to_string(in[0])), 0};
    return in[0];
  }

  void forward(ForwardBuilder& b) const override { b.emit(LogSoftmaxForward(), {b.in()}, {b.out()}); }

  void backward(GradientBuilder& b) const override {
    if (!b.wants_gradient()) return;
    b.emit(LogSoftmaxBackward(), {b.out_gradient(), b.out()}, {b.make_in_gradient()}, Phase::backward_input);
  }
};

const RegisterLayer register_log_softmax({
    .name = "log_softmax",
    .help = "logarithms of class probabilities",
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> { return std::make_unique<LogSoftmaxLayer>(); },
});

}  // namespace
}  // namespace trifold
