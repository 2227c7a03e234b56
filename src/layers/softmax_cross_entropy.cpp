// softmax_cross_entropy: the loss of a classifier. logits [N,K] and labels [N] -> report [2]: the loss, averaged over
// the global batch, and the number of correct samples.
#include <fmt/format.h>

#include "kernels/ops/loss.h"
#include "layers/nll_loss.h"

namespace trifold {
namespace {

class SoftmaxCrossEntropyLayer final : public Layer {
 public:
  enum class Input { logits, log_probabilities };

  explicit SoftmaxCrossEntropyLayer(const FieldValues& values, Input input = Input::logits)
      : input_(input), smoothing_(values.number("label_smoothing")) {
    if (!values.has("class_weights")) return;
    for (const double weight : values.numbers("class_weights")) class_weights_.push_back(static_cast<float>(weight));
  }

  bool is_loss() const override { return true; }

  Shape infer_shape(std::span<const Shape> in) const override {
    const Shape& logits = in[0];
    if (logits.rank() != 2)
      throw ShapeError{
          fmt::format("needs logits of [N, K] but gets {}: put a flatten layer before it", to_string(logits)), 0};
    if (!class_weights_.empty() && static_cast<std::int64_t>(class_weights_.size()) != logits[1])
      throw ShapeError{fmt::format("has {} class_weights for {} logits", class_weights_.size(), logits[1]), 0};
    return {2};
  }

  void forward(ForwardBuilder& b) const override {
    const Shape logits = b.shape(b.in());  // a copy: making values may move the graph's own
    const std::int64_t classes = b.context().classes;
    if (classes > 0 && logits[1] != classes)
      throw ShapeError{fmt::format("gets {} logits a sample but the model has {} classes", logits[1], classes), 0};
    CrossEntropy op;
    op.log_input = input_ == Input::log_probabilities;
    op.smoothing = smoothing_;
    op.class_weights = class_weights_.empty() ? b.context().class_weights : class_weights_;
    op.gradient = b.mode() == Mode::train;
    op.global_batch = b.context().global_batch;
    std::vector<ValueId> out = {b.out()};
    if (op.gradient) out.push_back(b.make("gradient", logits));
    b.emit(op, {b.in(), b.labels()}, out);
  }

  void backward(GradientBuilder& b) const override {
    if (b.wants_gradient()) b.set_in_gradient(0, b.made("gradient"));
  }

 private:
  Input input_;
  double smoothing_;
  std::vector<float> class_weights_;  // [K] or empty
};

const RegisterLayer register_softmax_cross_entropy({
    .name = "softmax_cross_entropy",
    .help = "loss: softmax, then the negative log-likelihood of the label",
    .fields = {{.name = "label_smoothing",
                .kind = FieldKind::number,
                .fallback = 0.0,
                .minimum = 0,
                .maximum = 1,
                .help = "share of the target spread evenly over all classes"},
               {.name = "class_weights",
                .kind = FieldKind::numbers,
                .optional = true,
                .minimum = 0,
                .help = "one weight per class; the loss is the weighted mean over the batch, as in PyTorch"}},
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> {
      return std::make_unique<SoftmaxCrossEntropyLayer>(values);
    },
});

}  // namespace

std::unique_ptr<Layer> make_nll_loss(const FieldValues& values) {
  return std::make_unique<SoftmaxCrossEntropyLayer>(values, SoftmaxCrossEntropyLayer::Input::log_probabilities);
}

}  // namespace trifold
