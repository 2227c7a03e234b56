// Shapes and element types: every op's tensors are as its header in kernels/ops says. An op without a rule here is
// refused, so that a new one gets its rule.
#include <map>

#include <fmt/format.h>

#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/grid.h"
#include "kernels/ops/halo.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/shape_ops.h"
#include "runtime/compiler/node_shapes.h"
#include "runtime/compiler/verify.h"

namespace trifold {
namespace {

using Rule = void (*)(const NodeShapes& n);

void one_to_one(const NodeShapes& n) {
  n.counts(1, 1);
  n.all_same();
}

void two_to_one(const NodeShapes& n) {
  n.counts(2, 1);
  n.all_same();
}

void convolution(const NodeShapes& n, const Conv2dArgs& args, const Value& x, const Value& w, const Value& y) {
  for (const Value* value : {&x, &w, &y}) n.rank(*value, 4);
  n.shape(w, {y.shape[1], x.shape[1] / args.groups, w.shape[2], w.shape[3]});
  const auto extent = [&](int dim) {
    const auto d = static_cast<std::size_t>(dim);
    return conv_out_extent(x.shape[2 + dim], w.shape[2 + dim], args.stride[d], args.pad[d], args.dilation[d]);
  };
  n.shape(y, {x.shape[0], w.shape[0], extent(0), extent(1)});
}

void product(const NodeShapes& n, const Value& x, const Value& w, const Value& y) {
  for (const Value* value : {&x, &w, &y}) n.rank(*value, 2);
  n.shape(w, {y.shape[1], x.shape[1]});
  n.shape(y, {x.shape[0], w.shape[0]});
}

void pooling(const NodeShapes& n, const PoolArgs& args, const Value& x, const Value& y) {
  n.rank(x, 4);
  const auto extent = [&](int dim) {
    const auto d = static_cast<std::size_t>(dim);
    return conv_out_extent(x.shape[2 + dim], args.kernel[d], args.stride[d], args.pad[d], 1);
  };
  n.shape(y, {x.shape[0], x.shape[1], extent(0), extent(1)});
}

void channel_vector(const NodeShapes& n, const Value& value, const Value& x) {
  n.shape(value, {x.shape.channels()});
}

// [groups, C]: groups divide the samples.
void statistics(const NodeShapes& n, const Value& value, const Value& x) {
  n.rank(value, 2);
  const std::int64_t groups = value.shape[0];
  if (groups < 1 || x.shape.batch() % groups != 0 || value.shape[1] != x.shape.channels())
    n.fail(fmt::format("has '{}' of shape {} for '{}' of shape {}", value.name, to_string(value.shape), x.name,
                       to_string(x.shape)));
}

void mask_of(const NodeShapes& n, const Value& mask, const Value& x) {
  n.type(mask, DType::u8);
  n.shape(mask, {x.shape.batch() * x.shape.channels() * ((x.shape.pixels() + 7) / 8)});
}

void normalised(const NodeShapes& n, const Value& x, std::size_t first) {
  for (const std::size_t i : {first, first + 1}) statistics(n, n.in(i), x);
  for (const std::size_t i : {first + 2, first + 3}) channel_vector(n, n.in(i), x);
}

void batch_norm_apply(const NodeShapes& n) {
  const auto& op = n.op<BatchNormApply>();
  const bool masked = n.outs() == 2 && op.relu && op.residual;
  n.counts(op.residual ? 6 : 5, masked ? 2 : 1);
  normalised(n, n.in(0), 1);
  n.same(n.out(0), n.in(0));
  if (op.residual) n.same(n.in(5), n.in(0));
  if (masked) mask_of(n, n.out(1), n.in(0));
}

void batch_norm_reduce(const NodeShapes& n) {
  const auto& op = n.op<BatchNormBackwardReduce>();
  const bool bits = op.mask == ReluMask::bits;
  n.counts(6u + op.second_gradient + bits, 4u + op.write_d);
  const Value& x = n.in(1);
  n.same(n.in(0), x);
  normalised(n, x, 2);
  if (op.second_gradient) n.same(n.in(6), x);
  if (bits) mask_of(n, n.in(n.ins() - 1), x);
  for (const std::size_t i : {0, 1}) statistics(n, n.out(i), x);
  for (const std::size_t i : {2, 3}) channel_vector(n, n.out(i), x);
  if (op.write_d) n.same(n.out(4), x);
}

void batch_norm_input(const NodeShapes& n) {
  n.counts(8, 1);
  const Value& x = n.in(1);
  n.same(n.in(0), x);
  normalised(n, x, 2);
  for (const std::size_t i : {6, 7}) statistics(n, n.in(i), x);
  n.same(n.out(0), x);
}

void loss(const NodeShapes& n, std::size_t inputs, bool gradient) {
  n.counts(inputs, gradient ? 2 : 1);
  n.rank(n.in(0), 2);
  n.type(n.in(inputs - 1), DType::i32);
  n.shape(n.in(inputs - 1), {n.in(0).shape[0]});
  n.type(n.out(0), DType::f64);
  n.shape(n.out(0), {2});
  if (gradient) n.same(n.out(1), n.in(0));
}

// Checks that a part differs from the whole in its number of channels only, and returns that number.
std::int64_t channels_of_part(const NodeShapes& n, const Value& part, const Value& whole) {
  Shape expected = whole.shape;
  expected[1] = part.shape.channels();
  n.shape(part, expected);
  return part.shape.channels();
}

void rows_of(const NodeShapes& n, const Value& part, const Value& as, std::int64_t rows) {
  n.rank(as, 4);
  n.shape(part, {as.shape[0], as.shape[1], rows, as.shape[3]});
}

void row_exchange(const NodeShapes& n) {
  n.counts(1, 1);
  const auto& op = n.op<RowExchange>();
  rows_of(n, n.in(0), n.in(0), op.moves.mine().count());
  rows_of(n, n.out(0), n.in(0), op.moves.wanted().count());
}

const std::map<std::string_view, Rule>& shape_rules() {
  static const std::map<std::string_view, Rule> rules = {
      {"conv2d.forward",
       [](const NodeShapes& n) {
         const auto& op = n.op<Conv2dForward>();
         n.counts(op.bias ? 3 : 2, 1);
         convolution(n, op.args, n.in(0), n.in(1), n.out(0));
         if (op.bias) channel_vector(n, n.in(2), n.out(0));
       }},
      {"conv2d.backward_data",
       [](const NodeShapes& n) {
         n.counts(2, 1);
         convolution(n, n.op<Conv2dBackwardData>().args, n.out(0), n.in(1), n.in(0));
       }},
      {"conv2d.backward_weights",
       [](const NodeShapes& n) {
         const auto& op = n.op<Conv2dBackwardWeights>();
         n.counts(2, op.bias ? 2 : 1);
         convolution(n, op.args, n.in(0), n.out(0), n.in(1));
         if (op.bias) channel_vector(n, n.out(1), n.in(1));
       }},
      {"linear.forward",
       [](const NodeShapes& n) {
         const bool bias = n.op<LinearForward>().bias;
         n.counts(bias ? 3 : 2, 1);
         product(n, n.in(0), n.in(1), n.out(0));
         if (bias) channel_vector(n, n.in(2), n.out(0));
       }},
      {"linear.backward_data",
       [](const NodeShapes& n) {
         n.counts(2, 1);
         product(n, n.out(0), n.in(1), n.in(0));
       }},
      {"linear.backward_weights",
       [](const NodeShapes& n) {
         const bool bias = n.op<LinearBackwardWeights>().bias;
         n.counts(2, bias ? 2 : 1);
         product(n, n.in(0), n.out(0), n.in(1));
         if (bias) channel_vector(n, n.out(1), n.in(1));
       }},
      {"activation.forward", one_to_one},
      {"activation.backward", two_to_one},
      {"dropout.forward", one_to_one},
      {"dropout.backward",
       [](const NodeShapes& n) {
         n.counts(n.op<DropoutBackward>().relu ? 2 : 1, 1);
         n.all_same();
       }},
      {"batch_norm.statistics",
       [](const NodeShapes& n) {
         n.counts(3, 4);
         for (const std::size_t i : {0, 1}) statistics(n, n.out(i), n.in(0));
         for (const std::size_t i : {1, 2}) channel_vector(n, n.in(i), n.in(0));
         for (const std::size_t i : {2, 3}) channel_vector(n, n.out(i), n.in(0));
       }},
      {"batch_norm.join",
       [](const NodeShapes& n) {
         n.counts(4, n.op<BatchNormJoin>().span > 1 ? 4 : 2);
         n.same(n.in(1), n.in(0));
         for (const std::size_t i : {2, 3}) channel_vector(n, n.in(i), n.in(0));
         for (const std::size_t i : {0, 1}) channel_vector(n, n.out(i), n.in(0));
         for (std::size_t i = 2; i < n.outs(); ++i) n.shape(n.out(i), {1, n.in(0).shape.channels()});
       }},
      {"batch_norm.join_rows",
       [](const NodeShapes& n) {
         const auto& op = n.op<BatchNormJoinRows>();
         n.counts(op.running ? 4 : 2, op.running ? 4 : 2);
         for (const std::size_t i : {0, 1}) n.times(n.in(i), n.out(0), static_cast<std::int64_t>(op.pixels.size()));
         n.same(n.out(1), n.out(0));
         for (std::size_t i = 2; i < n.outs(); ++i) channel_vector(n, n.out(i), n.in(0));
       }},
      {"batch_norm.running",
       [](const NodeShapes& n) {
         n.counts(2, 2);
         for (const std::size_t i : {0, 1}) n.shape(n.out(i), {1, n.in(0).shape[0]});
       }},
      {"batch_norm.apply", batch_norm_apply},
      {"batch_norm.backward_reduce", batch_norm_reduce},
      {"batch_norm.backward_input", batch_norm_input},
      {"max_pool.forward",
       [](const NodeShapes& n) {
         const auto& op = n.op<MaxPoolForward>();
         n.counts(1, op.keep_argmax ? 2 : 1);
         pooling(n, op.args, n.in(0), n.out(0));
         if (!op.keep_argmax) return;
         n.same(n.out(1), n.out(0));
         n.type(n.out(1), DType::u8);
       }},
      {"max_pool.backward",
       [](const NodeShapes& n) {
         const auto& op = n.op<MaxPoolBackward>();
         n.counts(op.relu ? 3 : 2, 1);
         pooling(n, op.args, n.out(0), n.in(0));
         for (std::size_t i = 1; i < n.ins(); ++i) n.same(n.in(i), n.in(0));
         n.type(n.in(1), DType::u8);
       }},
      {"avg_pool.forward",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         pooling(n, n.op<AvgPoolForward>().args, n.in(0), n.out(0));
       }},
      {"avg_pool.backward",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         pooling(n, n.op<AvgPoolBackward>().args, n.out(0), n.in(0));
       }},
      {"global_avg_pool.forward",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         n.shape(n.out(0), {n.in(0).shape.batch(), n.in(0).shape.channels()});
       }},
      {"global_avg_pool.backward",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         n.shape(n.in(0), {n.out(0).shape.batch(), n.out(0).shape.channels()});
       }},
      {"log_softmax.forward", one_to_one},
      {"log_softmax.backward", two_to_one},
      {"cross_entropy", [](const NodeShapes& n) { loss(n, 2, n.op<CrossEntropy>().gradient); }},
      {"mse",
       [](const NodeShapes& n) {
         loss(n, 3, n.op<MeanSquares>().gradient);
         n.same(n.in(1), n.in(0));
       }},
      {"prepare_images",
       [](const NodeShapes& n) {
         one_to_one(n);
         n.type(n.in(0), DType::u8);
         n.type(n.out(0), DType::f32);
       }},
      {"add", two_to_one},
      {"concat",
       [](const NodeShapes& n) {
         n.counts(n.ins(), 1);
         std::int64_t channels = 0;
         for (std::size_t i = 0; i < n.ins(); ++i) channels += channels_of_part(n, n.in(i), n.out(0));
         if (channels != n.out(0).shape.channels())
           n.fail(fmt::format("joins {} channels to '{}', which has {}", channels, n.out(0).name,
                              n.out(0).shape.channels()));
       }},
      {"split_channels",
       [](const NodeShapes& n) {
         const auto& first = n.op<SplitChannels>().first_channel;
         n.counts(1, first.size());
         for (std::size_t i = 0; i < n.outs(); ++i)
           if (first[i] + channels_of_part(n, n.out(i), n.in(0)) > n.in(0).shape.channels())
             n.fail(fmt::format("takes '{}' from beyond the channels of '{}'", n.out(i).name, n.in(0).name));
       }},
      {"reshape",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         n.times(n.out(0), n.in(0), 1);
         n.type(n.out(0), n.in(0).dtype);
       }},
      {"cast",
       [](const NodeShapes& n) {
         n.counts(n.op<Cast>().scaled ? 2 : 1, 1);
         n.same(n.out(0), n.in(0));
       }},
      {"reorder",
       [](const NodeShapes& n) {
         one_to_one(n);
         n.type(n.out(0), n.in(0).dtype);
       }},
      {"take_rows",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         n.rank(n.out(0), 4);
         rows_of(n, n.out(0), n.in(0), n.out(0).shape[2]);
       }},
      {"halo_exchange", row_exchange},
      {"gather_rows", row_exchange},
      {"halo_add",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         const RowMoves& moves = n.op<HaloAdd>().moves;
         rows_of(n, n.in(0), n.in(0), moves.wanted().count());
         rows_of(n, n.out(0), n.in(0), moves.mine().count());
       }},
      {"all_reduce", one_to_one},
      {"all_gather",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         n.times(n.out(0), n.in(0), n.out(0).shape[0] / n.in(0).shape[0]);
       }},
      {"reduce_scatter",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         n.times(n.in(0), n.out(0), n.in(0).shape[0] / n.out(0).shape[0]);
       }},
      {"gather_channels",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         channels_of_part(n, n.in(0), n.out(0));
       }},
      {"grid_gather",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         n.shape(n.out(0), {n.in(0).shape[0], n.in(0).shape[1] * n.op<GridGather>().grid.side});
       }},
      {"grid_sum_scatter",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         n.shape(n.in(0), {n.out(0).shape[0], n.out(0).shape[1] * n.op<GridSumScatter>().grid.side});
       }},
      {"grid_sum", one_to_one},
      {"gather_blocks",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         const std::int64_t side = n.op<GatherBlocks>().grid.side;
         n.shape(n.out(0), {n.in(0).shape[0] * side, n.in(0).shape[1] * side});
       }},
      {"take_block",
       [](const NodeShapes& n) {
         n.counts(1, 1);
         const std::int64_t side = n.op<TakeBlock>().grid.side;
         n.shape(n.in(0), {n.out(0).shape[0] * side, n.out(0).shape[1] * side});
       }},
      {"send", [](const NodeShapes& n) { n.counts(1, 0); }},
      {"receive", [](const NodeShapes& n) { n.counts(0, 1); }},
  };
  return rules;
}

// Statistics, losses and sums are f32; the other floats of a node are of one type, unless the op converts.
void check_float_types(const NodeShapes& n, const Op& op) {
  const Value* first = nullptr;
  const auto check = [&](Op::Side side, std::size_t index, const Value& value) {
    if (value.dtype != DType::f32 && value.dtype != DType::f16 && value.dtype != DType::bf16) return;
    if (op.keeps_f32(side, static_cast<int>(index))) return n.type(value, DType::f32);
    if (op.takes_any_type()) return;
    if (first == nullptr) first = &value;
    if (value.dtype != first->dtype)
      n.fail(fmt::format("has '{}' of type {} and '{}' of type {}", first->name, name_of(first->dtype), value.name,
                         name_of(value.dtype)));
  };
  for (std::size_t i = 0; i < n.ins(); ++i) check(Op::Side::in, i, n.in(i));
  for (std::size_t i = 0; i < n.outs(); ++i) check(Op::Side::out, i, n.out(i));
}

}  // namespace

void verify_shapes(const Graph& graph, std::string_view pass) {
  for (const Node& node : graph.nodes) {
    const NodeShapes shapes(graph, node, pass);
    const auto rule = shape_rules().find(node.op->name());
    if (rule == shape_rules().end()) shapes.fail("has no rule for its shapes: add one to verify_shapes.cpp");
    rule->second(shapes);
    check_float_types(shapes, *node.op);
  }
}

}  // namespace trifold
