#include "layers/batch_norm.h"

#include <fmt/format.h>

#include "kernels/ops/batch_norm.h"
#include "kernels/ops/collective.h"

namespace trifold {

BatchNormLayer::BatchNormLayer(const FieldValues& values)
    : eps_(values.number("eps")), momentum_(values.number("momentum")) {}

Shape BatchNormLayer::infer_shape(std::span<const Shape> in) const {
  if (in[0].rank() != 4 && in[0].rank() != 2)
    throw ShapeError{fmt::format("needs an input of [N, C, H, W] or [N, C] but gets {}", to_string(in[0])), 0};
  return in[0];
}

std::vector<ParameterSpec> BatchNormLayer::parameters(std::span<const Shape> in) const {
  const Shape channels{in[0][1]};
  return {{.name = "weight", .shape = channels, .init = {.constant = 1}, .decay = false},
          {.name = "bias", .shape = channels, .decay = false},
          {.name = "running_mean", .shape = channels, .trained = false, .decay = false},
          {.name = "running_var", .shape = channels, .init = {.constant = 1}, .trained = false, .decay = false}};
}

void BatchNormLayer::forward(ForwardBuilder& b) const {
  const Shape x = b.shape(b.in());  // a copy: making values may move the graph's own
  const Groups groups = groups_of(b);
  const Shape statistics{x.batch() / groups.samples, x.channels()};
  const ValueId mean = b.make("mean", statistics);
  const ValueId istd = b.make("istd", statistics);
  const ValueId running_mean = b.parameter("running_mean");
  const ValueId running_var = b.parameter("running_var");
  if (b.mode() == Mode::train) {
    BatchNormStatistics op;
    op.group = groups.samples;
    op.eps = eps_;
    op.momentum = b.context().replicas > 1 || !has_whole_images() ? 0 : momentum_;
    b.emit(op, {b.in(), running_mean, running_var}, {mean, istd, running_mean, running_var});
    join_images(b, groups);
    if (b.context().replicas > 1) join_replicas(b, groups, b.made("mean"), b.made("istd"));
  } else {
    BatchNormRunning op;
    op.eps = eps_;
    b.emit(op, {running_mean, running_var}, {mean, istd});
  }
  BatchNormApply apply;
  apply.group = groups.samples;
  b.emit(apply, {b.in(), b.made("mean"), b.made("istd"), b.parameter("weight"), b.parameter("bias")}, {b.out()});
}

void BatchNormLayer::backward(GradientBuilder& b) const {
  const Groups groups = groups_of(b);
  const ValueId mean = b.made("mean");
  const ValueId istd = b.made("istd");
  const ValueId gamma = b.parameter("weight");
  const ValueId beta = b.parameter("bias");
  const Shape statistics = b.shape(mean);
  ValueId sum_d = b.make("sum_d", statistics);
  ValueId sum_dx = b.make("sum_dx", statistics);
  BatchNormBackwardReduce reduce;
  reduce.group = groups.samples;
  // Part of B though it makes parameter gradients: the gradient of x waits for its sums.
  b.emit(reduce, {b.out_gradient(), b.in(), mean, istd, gamma, beta},
         {sum_d, sum_dx, b.parameter_gradient("weight"), b.parameter_gradient("bias")}, Phase::backward_input);
  if (!b.wants_gradient()) return;
  sum_d = sum_over_images(b, sum_d, "image_sum_d");
  sum_dx = sum_over_images(b, sum_dx, "image_sum_dx");
  if (groups.span > 1) {
    sum_d = sum_over_group(b, groups, sum_d, "all_sum_d");
    sum_dx = sum_over_group(b, groups, sum_dx, "all_sum_dx");
  }
  BatchNormBackwardInput input;
  input.group = groups.samples;
  input.span = groups.span;
  if (!has_whole_images()) input.pixels = image_pixels(b);
  b.emit(input, {b.out_gradient(), b.in(), mean, istd, gamma, beta, sum_d, sum_dx}, {b.make_in_gradient()},
         Phase::backward_input);
}

BatchNormLayer::Groups BatchNormLayer::groups_of(const LayerBuilder& b) const {
  const Shape& x = b.shape(b.in());
  if (b.mode() == Mode::evaluate) return {x.batch(), 1};
  const std::int64_t group = b.context().bn_group;
  const std::int64_t replicas = b.context().replicas;
  const bool whole = group >= 1 && x.batch() % group == 0;
  const bool spans = group > x.batch() && group % x.batch() == 0 && replicas * x.batch() % group == 0;
  if (!whole && !spans)
    throw ShapeError{
        fmt::format("bn_group {} does not divide the {} samples of a micro-batch{}", group, replicas * x.batch(),
                    replicas > 1 ? fmt::format(" into whole parts of {} replicas", replicas) : ""),
        {}};
  if (group * image_pixels(b) < 2)
    throw ShapeError{"has one value a channel to take statistics of: bn_group must be at least 2 here", 0};
  return whole ? Groups{group, 1} : Groups{x.batch(), static_cast<int>(group / x.batch())};
}

// Running averages move by all replicas' groups, and a group that lies on several is joined.
void BatchNormLayer::join_replicas(ForwardBuilder& b, const Groups& groups, ValueId mean, ValueId istd) const {
  const Shape local = b.shape(mean);
  const Shape all{local[0] * b.context().replicas, local[1]};
  const ValueId all_mean = b.make("all_mean", all);
  const ValueId all_istd = b.make("all_istd", all);
  const ValueId running_mean = b.parameter("running_mean");
  const ValueId running_var = b.parameter("running_var");
  BatchNormJoin join;
  join.group = groups.samples;
  join.pixels = image_pixels(b);
  join.span = groups.span;
  join.replica = b.context().replica;
  join.eps = eps_;
  join.momentum = momentum_;
  if (groups.span == 1) {
    // Nobody waits for it: the replicas meet once, when all statistics are there.
    b.emit_at_forward_end(AllGather{}, {mean}, {all_mean});
    b.emit_at_forward_end(AllGather{}, {istd}, {all_istd});
    b.emit_at_forward_end(join, {all_mean, all_istd, running_mean, running_var}, {running_mean, running_var});
    return;
  }
  b.emit(AllGather{}, {mean}, {all_mean});
  b.emit(AllGather{}, {istd}, {all_istd});
  const ValueId joined_mean = b.make("mean", local);  // in the place of this replica's own
  const ValueId joined_istd = b.make("istd", local);
  b.emit(join, {all_mean, all_istd, running_mean, running_var}, {running_mean, running_var, joined_mean, joined_istd});
}

ValueId BatchNormLayer::sum_over_group(LayerBuilder& b, const Groups& groups, ValueId sum, const char* name) {
  const ValueId all = b.make(name, b.shape(sum));
  AllReduce op;
  op.span = groups.span == b.context().replicas ? 0 : groups.span;
  op.ranks = b.context().replicas;
  b.emit(op, {sum}, {all}, Phase::backward_input);
  return all;
}

namespace {

const RegisterLayer register_batch_norm({
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
