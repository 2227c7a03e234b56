// The layouts that the CPU backend chooses. L is the vector's lanes: the channel block.
#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/shape_ops.h"

namespace trifold {
namespace {

const int L = cpu::simd_lanes();
const Layout kPlain;
const Layout kImage = {Order::channel_block, L};
const Layout kWeights = {Order::conv_block, L};

using Layouts = std::vector<Layout>;
using Tensors = std::vector<TensorDesc>;

void expect(const Op& op, const Tensors& in, const Tensors& out, const Layouts& in_layouts,
            const Layouts& out_layouts) {
  const LayoutChoice choice = cpu_backend().choose_layouts(op, in, out);
  EXPECT_EQ(choice.in, in_layouts) << to_string(op) << " " << to_string(in[0]);
  EXPECT_EQ(choice.out, out_layouts) << to_string(op) << " " << to_string(in[0]);
}

struct ConvLayouts {
  Layout x, w, y;
};

// The three passes of one convolution agree.
void expect_conv(std::int64_t in, std::int64_t out, std::int64_t groups, const ConvLayouts& layouts) {
  const TensorDesc x = {{2, in, 5, 5}}, w = {{out, in / groups, 3, 3}}, y = {{2, out, 3, 3}}, bias = {{out}};
  Conv2dForward forward;
  forward.bias = true;
  forward.args.groups = groups;
  expect(forward, {x, w, bias}, {y}, {layouts.x, layouts.w, kPlain}, {layouts.y});
  Conv2dBackwardData backward_data;
  backward_data.args.groups = groups;
  expect(backward_data, {y, w}, {x}, {layouts.y, layouts.w}, {layouts.x});
  Conv2dBackwardWeights backward_weights;
  backward_weights.args.groups = groups;
  backward_weights.bias = true;
  expect(backward_weights, {x, y}, {w, bias}, {layouts.x, layouts.y}, {layouts.w, kPlain});
}

TEST(CpuLayouts, Convolutions) {
  expect_conv(2 * L, L, 1, {kImage, kWeights, kImage});
  expect_conv(3, L, 1, {kPlain, {Order::conv_first, L}, kImage});
  expect_conv(L, 10, 1, {kImage, kPlain, kPlain});
  expect_conv(3, 10, 1, {});
  expect_conv(1, 1, 1, {});
}

TEST(CpuLayouts, GroupedConvolutions) {
  expect_conv(2 * L, 4 * L, 2, {kImage, kWeights, kImage});
  expect_conv(L, 2 * L, 2, {});  // half a block of inputs to a group
  expect_conv(2 * L, L, 2, {});  // half a block of outputs
  expect_conv(2 * L, 2 * L, 2 * L, {kImage, {Order::conv_depthwise, L}, kImage});
  expect_conv(6, 6, 6, {});
  expect_conv(L, 2 * L, L, {});  // two outputs a channel are not depthwise
}

TEST(CpuLayouts, ChannelwiseOpsFollowTheirFirstInput) {
  const TensorDesc blocked = {{4, 2 * L, 5, 5}, DType::f32, kImage};
  const TensorDesc plain = {{4, 2 * L, 5, 5}};
  const TensorDesc vector = {{2 * L}};
  expect(Add(), {blocked, plain}, {plain}, {kImage, kImage}, {kImage});
  expect(Add(), {plain, blocked}, {plain}, {kPlain, kPlain}, {kPlain});
  expect(ActivationForward(), {blocked}, {plain}, {kImage}, {kImage});
  BatchNormApply apply;
  apply.residual = true;
  expect(apply, {blocked, vector, vector, vector, vector, plain}, {plain},
         {kImage, kPlain, kPlain, kPlain, kPlain, kImage}, {kImage});
  const TensorDesc pooled = {{4, 2 * L, 2, 2}};
  const TensorDesc argmax = {{4, 2 * L, 2, 2}, DType::u8};
  expect(MaxPoolForward(), {blocked}, {pooled, argmax}, {kImage}, {kImage, kImage});
  const TensorDesc rows = {{4, 7}};
  expect(ActivationForward(), {rows}, {rows}, {kPlain}, {kPlain});
}

TEST(CpuLayouts, GlobalPooling) {
  const TensorDesc blocked = {{4, L, 5, 5}, DType::f32, kImage}, odd = {{4, 3, 5, 5}};
  expect(GlobalAvgPoolForward(), {blocked}, {{{4, L}}}, {kImage}, {kPlain});
  expect(GlobalAvgPoolForward(), {odd}, {{{4, 3}}}, {kPlain}, {kPlain});
  expect(GlobalAvgPoolBackward(), {{{4, L}}}, {{{4, L, 5, 5}}}, {kPlain}, {kImage});
  expect(GlobalAvgPoolBackward(), {{{4, 3}}}, {odd}, {kPlain}, {kPlain});
}

TEST(CpuLayouts, ConcatAndSplitNeedWholeBlocks) {
  const TensorDesc one = {{2, L, 3, 3}}, two = {{2, 2 * L, 3, 3}}, three = {{2, 3 * L, 3, 3}};
  expect(Concat(), {one, two}, {three}, {kImage, kImage}, {kImage});
  const TensorDesc half = {{2, L / 2, 3, 3}};
  expect(Concat(), {half, half}, {one}, {kPlain, kPlain}, {kPlain});
  SplitChannels split;
  split.first_channel = {0, L};
  expect(split, {three}, {one, two}, {kImage}, {kImage, kImage});
  split.first_channel = {L / 2};
  expect(split, {two}, {one}, {kPlain}, {kPlain});
}

TEST(CpuLayouts, LinearKeepsTheOrderOfColumns) {
  const Layout columns = {Order::column_block, L, 4};
  const TensorDesc x = {{3, 8 * L}, DType::f32, columns}, w = {{5, 8 * L}, DType::f32, columns};
  const TensorDesc y = {{3, 5}}, bias = {{5}}, unknown = {{3, 8 * L}}, unknown_w = {{5, 8 * L}};
  LinearForward forward;
  forward.bias = true;
  expect(forward, {x, w, bias}, {y}, {columns, columns, kPlain}, {kPlain});
  expect(LinearBackwardData(), {y, w}, {unknown}, {kPlain, columns}, {columns});
  LinearBackwardWeights backward_weights;
  backward_weights.bias = true;
  expect(backward_weights, {x, y}, {unknown_w, bias}, {columns, kPlain}, {columns, kPlain});
}

TEST(CpuLayouts, LossesArePlainAndUpdatesTakeWhatTheyGet) {
  expect(CrossEntropy(), {{{4, 10}}, {{4}, DType::i32}}, {{{2}, DType::f64}, {{4, 10}}}, {kPlain, kPlain},
         {kPlain, kPlain});
  const TensorDesc weights = {{L, L, 3, 3}, DType::f32, kWeights};
  expect(AccumulateGradients(), {weights, weights}, {{{L, L, 3, 3}}}, {kWeights, kWeights}, {kWeights});
}

}  // namespace
}  // namespace trifold
