// batch_norm: each channel to mean 0 and variance 1, then scaled and shifted. x [N,C,...] -> y of the same shape. In
// training the statistics are those of groups of bn_group consecutive samples; in evaluation the running averages.
#include "kernels/ops/batch_norm.h"

#include <fmt/format.h>

#include "layers/layer.h"

namespace trifold {
namespace {

class BatchNormLayer final : public Layer {
 public:
  explicit BatchNormLayer(const FieldValues& values)
      : eps_(values.number("eps")), momentum_(values.number("momentum")) {}

  Shape infer_shape(std::span<const Shape> in) const override {
    if (in[0].rank() != 4 && in[0].rank() != 2)
      throw ShapeError{fmt::format("needs an input of [N, C, H, W] or [N, C] but gets {}", to_string(in[0])), 0};
    return in[0];
  }

  std::vector<ParameterSpec> parameters(std::span<const Shape> in) const override {
    const Shape channels{in[0][1]};
    return {{.name = "weight", .shape = channels, .init = {.constant = 1}, .decay = false},
            {.name = "bias", .shape = channels, .decay = false},
            {.name = "running_mean", .shape = channels, .trained = false, .decay = false},
            {.name = "running_var", .shape = channels, .init = {.constant = 1}, .trained = false, .decay = false}};
  }

  void forward(LayerBuilder& b) const override {
    const Shape x = b.shape(b.in());  // a copy: making values may move the graph's own
    const std::int64_t group = group_of(b);
    const Shape statistics{x.batch() / group, x.channels()};
    const ValueId mean = b.make("mean", statistics);
    const ValueId istd = b.make("istd", statistics);
    const ValueId running_mean = b.parameter("running_mean");
    const ValueId running_var = b.parameter("running_var");
    if (b.mode() == Mode::train) {
      BatchNormStatistics op;
      op.group = group;
      op.eps = eps_;
      op.momentum = momentum_;
      b.emit(op, {b.in(), running_mean, running_var}, {mean, istd, running_mean, running_var});
    } else {
      BatchNormRunning op;
      op.eps = eps_;
      b.emit(op, {running_mean, running_var}, {mean, istd});
    }
    BatchNormApply apply;
    apply.group = group;
    b.emit(apply, {b.in(), mean, istd, b.parameter("weight"), b.parameter("bias")}, {b.out()});
  }

  void backward(LayerBuilder& b) const override {
    const ValueId mean = b.made("mean");
    const ValueId istd = b.made("istd");
    const ValueId gamma = b.parameter("weight");
    const ValueId beta = b.parameter("bias");
    const Shape statistics = b.shape(mean);
    const ValueId sum_d = b.make("sum_d", statistics);
    const ValueId sum_dx = b.make("sum_dx", statistics);
    BatchNormBackwardReduce reduce;
    reduce.group = group_of(b);
    // Part of B though it makes parameter gradients: the gradient of x waits for its sums.
    b.emit(reduce, {b.out_gradient(), b.in(), mean, istd, gamma, beta},
           {sum_d, sum_dx, b.parameter_gradient("weight"), b.parameter_gradient("bias")}, Phase::backward_input);
    if (!b.wants_gradient()) return;
    BatchNormBackwardInput input;
    input.group = group_of(b);
    b.emit(input, {b.out_gradient(), b.in(), mean, istd, gamma, beta, sum_d, sum_dx}, {b.make_in_gradient()},
           Phase::backward_input);
  }

 private:
  static std::int64_t group_of(const LayerBuilder& b) {
    const Shape& x = b.shape(b.in());
    if (b.mode() == Mode::evaluate) return x.batch();
    const std::int64_t group = b.context().bn_group;
    if (group < 1 || x.batch() % group != 0)
      throw ShapeError{fmt::format("bn_group {} does not divide the {} samples of a micro-batch", group, x.batch()),
                       {}};
    if (group * x.pixels() < 2)
      throw ShapeError{"has one value a channel to take statistics of: bn_group must be at least 2 here", 0};
    return group;
  }

  double eps_;
  double momentum_;
};

const RegisterLayer registration({
    .name = "batch_norm",
    .help = "normalises each channel over a group of samples, then scales and shifts it",
    .fields =
        {{.name = "eps", .kind = FieldKind::number, .fallback = 1e-5, .minimum = 0, .help = "added to the variance"},
         {.name = "momentum",
          .kind = FieldKind::number,
          .fallback = 0.1,
          .minimum = 0,
          .maximum = 1,
          .help = "share of a new group in the running averages"}},
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> {
      return std::make_unique<BatchNormLayer>(values);
    },
});

}  // namespace
}  // namespace trifold
