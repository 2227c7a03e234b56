// The verifier refuses a graph or program with one fault, in a sentence that names the pass, the node and the value.
#include "runtime/compiler/verify.h"

#include <gtest/gtest.h>

#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/shape_ops.h"
#include "runtime/compiler/verify_fixture.h"

namespace trifold::test {
namespace {

// --- graphs

struct TinyGraph {
  Graph graph;

  ValueId value(const std::string& name, const Shape& shape, Role role = Role::activation, DType type = DType::f32) {
    return graph.add_value({name, shape, type, role});
  }
  Node& node(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out, Phase phase = Phase::forward) {
    graph.nodes.push_back({std::move(op), std::move(in), std::move(out), phase});
    return graph.nodes.back();
  }
  void expect_refused(const std::string& sentence) const {
    test::expect_refused([&] { verify_graph(graph, "a pass"); }, sentence);
  }
};

const Shape kImage{2, 8, 4, 4};
const Shape kHalfImage{2, 8, 2, 2};

TEST(VerifyGraph, AcceptsAReluAndItsGradient) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  const ValueId y = g.value("y", kImage);
  const ValueId dx = g.value("dx", kImage, Role::gradient);
  g.node(relu(), {x}, {y});
  g.node(relu_gradient(), {y, y}, {dx}, Phase::backward_input);
  EXPECT_NO_THROW(verify_graph(g.graph, "a pass"));
}

TEST(VerifyGraph, RefusesAReadBeforeTheWrite) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage);
  g.node(relu(), {x}, {g.value("y", kImage)});
  g.expect_refused("'activation.forward' reads 'x' before any node writes it");
}

TEST(VerifyGraph, RefusesASecondWriter) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  const ValueId y = g.value("y", kImage);
  g.graph.layers.push_back({"first", "relu", {}, kNoValue, {}});
  g.node(relu(), {x}, {y}).layer = 0;
  g.node(relu(), {x}, {y});
  g.expect_refused("'activation.forward' writes 'y', which 'first activation.forward' wrote before");
}

TEST(VerifyGraph, RefusesAWriteToTheInputs) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  g.node(relu(), {x}, {x});
  g.expect_refused("'activation.forward' overwrites 'x', which no node may write");
}

TEST(VerifyGraph, RefusesForwardWorkAfterBackwardWork) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  g.node(relu(), {x}, {g.value("y", kImage)}, Phase::backward_input);
  g.node(relu(), {x}, {g.value("z", kImage)});
  g.expect_refused("'activation.forward' is of phase F but comes after nodes of phase B");
}

TEST(VerifyGraph, RefusesAParameterWithoutItsGradient) {
  TinyGraph g;
  const ValueId w = g.value("w", {8, 8}, Role::parameter);
  g.graph.parameters.push_back({"fc.weight", w, g.value("d w", {8, 8}, Role::parameter_gradient), {}});
  g.expect_refused("no node writes 'd w', the gradient of 'fc.weight'");
}

TEST(VerifyGraph, RefusesALossThatNobodyMakes) {
  TinyGraph g;
  g.graph.report = g.value("loss", {2}, Role::report, DType::f64);
  g.expect_refused("no node writes the result 'loss'");
}

TEST(VerifyGraph, RefusesShapesThatDoNotFit) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  const ValueId y = g.value("y", kHalfImage, Role::input);
  g.node(made(Add{}), {x, y}, {g.value("sum", kImage)});
  g.expect_refused("'add' has 'y' of shape 2x8x2x2 instead of 2x8x4x4");
}

TEST(VerifyGraph, RefusesTypesThatDoNotFit) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  g.node(relu(), {x}, {g.value("y", kImage, Role::activation, DType::f16)});
  g.expect_refused("'activation.forward' has 'x' of type f32 and 'y' of type f16");
}

TEST(VerifyGraph, RefusesHalfWhereAnOpKeepsFloat) {
  TinyGraph g;
  const ValueId x = g.value("x", {2, 3}, Role::input, DType::bf16);
  g.node(made(AllReduce{}), {x}, {g.value("sum", {2, 3})});
  g.expect_refused("'all_reduce' has 'x' of type bf16 instead of f32");
}

// A loss whose gradient goes through a view, as behind a flatten, to the convolutions before it.
struct ScaledLoss : TinyGraph {
  ValueId y = value("y", {2, 8}, Role::input);
  ValueId targets = value("targets", {2, 8}, Role::input);
  ValueId labels = value("labels", {2}, Role::input, DType::i32);
  ValueId report = value("loss", {2}, Role::report, DType::f64);
  ValueId dy = value("dy", {2, 8});  // made in forward work
  ValueId image = value("dy as an image", {2, 8, 1, 1}, Role::gradient);
  ValueId scaled = value("dy as f16", {2, 8, 1, 1}, Role::gradient, DType::f16);

  ScaledLoss() {
    graph.loss_scale = value("loss scale", {4}, Role::state);
    MeanSquares loss;
    loss.gradient = true;
    node(made(loss), {y, targets, labels}, {report, dy});
    node(made(Reshape{}), {dy}, {image}, Phase::backward_input);
  }
};

TEST(VerifyGraph, AcceptsAViewOfTheLosssGradientThatIsScaled) {
  ScaledLoss g;
  Cast cast;
  cast.scaled = true;
  g.node(made(cast), {g.image, g.graph.loss_scale}, {g.scaled}, Phase::backward_input);
  EXPECT_NO_THROW(verify_graph(g.graph, "a pass"));
}

TEST(VerifyGraph, RefusesAReaderOfTheLosssGradientWithoutTheLossScale) {
  ScaledLoss g;
  g.node(made(Cast{}), {g.image}, {g.scaled}, Phase::backward_input);
  g.expect_refused("'cast' reads the loss's gradient before it is multiplied by the loss scale");
}

TEST(VerifyGraph, RefusesAnOpWithoutARule) {
  struct Unknown final : Op {
    std::string_view name() const override { return "unknown"; }
    OpKind kind() const override { return OpKind::element_wise; }
  };
  TinyGraph g;
  g.node(made(Unknown{}), {}, {});
  g.expect_refused("'unknown' has no rule for its shapes: its op needs a check_shapes()");
}

// x -> relu -> max_pool, with the ReLU undone by the pooling's gradient. `read`: what the pooling reads.
TinyGraph pooled(bool sum_between) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  const ValueId y = g.value("relu", kImage);
  const ValueId sum = g.value("sum", kImage);
  const ValueId pooled = g.value("pool", kHalfImage);
  const ValueId argmax = g.value("argmax", kHalfImage, Role::activation, DType::u8);
  const ValueId dy = g.value("dy", kHalfImage, Role::input);
  g.node(relu(), {x}, {y});
  if (sum_between) g.node(made(Add{}), {x, y}, {sum});
  g.node(made(MaxPoolForward{}), {sum_between ? sum : y}, {pooled, argmax});
  MaxPoolBackward backward;
  backward.relu = true;
  g.node(made(backward), {dy, argmax, pooled}, {g.value("dx", kImage, Role::gradient)}, Phase::backward_input);
  return g;
}

TEST(VerifySavedValues, AcceptAPoolingThatUndoesTheReluItReads) {
  EXPECT_NO_THROW(verify_graph(pooled(false).graph, "a pass"));
}

TEST(VerifySavedValues, RefuseAPoolingThatUndoesAReluItDoesNotRead) {
  pooled(true).expect_refused(
      "'max_pool.backward' undoes a ReLU by the sign of 'pool', but its pooling read 'sum', which is no ReLU's output");
}

TEST(VerifySavedValues, RefuseAnArgmaxOfOtherWindows) {
  TinyGraph g = pooled(false);
  MaxPoolBackward backward = static_cast<const MaxPoolBackward&>(*g.graph.nodes.back().op);
  backward.args.stride = {3, 3};
  backward.args.kernel = {3, 3};
  backward.args.pad = {1, 1};
  g.graph.nodes.back().op = made(backward);
  g.expect_refused("'max_pool.backward' reads 'argmax' as its argmax, which no pooling of the same windows made");
}

TEST(VerifySavedValues, RefuseAnOutputThatTheActivationDidNotMake) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  g.node(relu_gradient(), {x, x}, {g.value("dx", kImage, Role::gradient)}, Phase::backward_input);
  g.expect_refused("'activation.backward' reads 'x' as the output of a relu, which did not make it");
}

TEST(VerifySavedValues, RefuseAnInputThatTheActivationDidNotRead) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  ActivationBackward gradient;
  gradient.function = Activation::gelu;
  g.node(made(gradient), {x, x}, {g.value("dx", kImage, Role::gradient)}, Phase::backward_input);
  g.expect_refused("'activation.backward' reads 'x' as the input of a gelu, but no gelu read it");
}

TEST(VerifySavedValues, RefuseADropoutWithoutTheReluThatItUndoes) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage, Role::input);
  const ValueId y = g.value("y", kImage);
  g.node(made(DropoutForward{}), {x}, {y});
  DropoutBackward gradient;
  gradient.relu = true;
  g.node(made(gradient), {x, y}, {g.value("dx", kImage, Role::gradient)}, Phase::backward_input);
  g.expect_refused("'dropout.backward' undoes a ReLU by 'y', which no dropout with a ReLU made");
}

// A batch norm with a residual and a ReLU, and the reduction of its gradient.
struct MaskedNorm : TinyGraph {
  ValueId x = value("x", kImage, Role::input);
  ValueId other = value("other", kImage, Role::input);
  ValueId mask = value("mask", {2 * 8 * 2}, Role::activation, DType::u8);

  explicit MaskedNorm(ReluMask undone = ReluMask::bits) {
    const ValueId mean = value("mean", {1, 8}, Role::state);
    const ValueId istd = value("istd", {1, 8}, Role::state);
    const ValueId gamma = value("gamma", {8}, Role::parameter);
    const ValueId beta = value("beta", {8}, Role::parameter);
    BatchNormApply apply;
    apply.relu = apply.residual = true;
    node(made(apply), {x, mean, istd, gamma, beta, other}, {value("y", kImage), mask});
    BatchNormBackwardReduce reduce;
    reduce.mask = undone;
    std::vector<ValueId> in = {other, x, mean, istd, gamma, beta};
    if (undone == ReluMask::bits) in.push_back(mask);
    node(made(reduce), in, {value("sum_d", {1, 8}), value("sum_dx", {1, 8}), value("dgamma", {8}), value("dbeta", {8})},
         Phase::backward_input);
  }
};

TEST(VerifySavedValues, RefuseTheMaskOfAnotherBatchNorm) {
  MaskedNorm g;
  EXPECT_NO_THROW(verify_graph(g.graph, "a pass"));
  g.graph.nodes.back().in[1] = g.other;
  g.expect_refused("'batch_norm.backward_reduce' reads the mask 'mask', which no batch norm of 'other' wrote");
}

TEST(VerifySavedValues, RefuseAReluThatXDoesNotTell) {
  MaskedNorm(ReluMask::from_x)
      .expect_refused(
          "'batch_norm.backward_reduce' undoes the ReLU of a batch norm of 'x', but no batch norm with a "
          "ReLU alone reads it");
}

// --- layouts

const Layout kBlocked{Order::channel_block, 8};

LaidOutGraph laid_out(const Graph& graph, const std::vector<ValueId>& blocked) {
  LaidOutGraph result{graph, {}};
  for (const Value& value : graph.values) result.descs.push_back({value.shape, value.dtype, {}});
  for (const ValueId id : blocked) result.descs[static_cast<std::size_t>(id)].layout = kBlocked;
  return result;
}

void expect_layouts_refused(const LaidOutGraph& graph, const std::string& sentence) {
  expect_refused([&] { verify_layouts(graph, cpu_backend(), "a pass"); }, sentence);
}

TEST(VerifyLayouts, RefusesALayoutThatTheBackendDoesNotWant) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage);
  const ValueId y = g.value("y", kImage);
  g.node(relu(), {x}, {y});
  EXPECT_NO_THROW(verify_layouts(laid_out(g.graph, {x, y}), cpu_backend(), "a pass"));
  expect_layouts_refused(laid_out(g.graph, {x}),
                         "'activation.forward' writes 'y' as plain, but backend cpu wants nChw8c");
}

TEST(VerifyLayouts, RefusesAViewInAnotherOrder) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage);
  const ValueId rows = g.value("rows", {2, 128});
  g.node(made(Reshape{}), {x}, {rows});
  LaidOutGraph graph = laid_out(g.graph, {x});
  expect_layouts_refused(graph,
                         "'reshape' views 'x' (f32 2x8x4x4 nChw8c) as 'rows' (f32 2x128 plain), whose elements lie in "
                         "another order");
  graph.descs[static_cast<std::size_t>(rows)].layout = {Order::column_block, 8, 16};
  EXPECT_NO_THROW(verify_layouts(graph, cpu_backend(), "a pass"));
}

TEST(VerifyLayouts, RefusesAGradientThatLiesUnlikeItsParameter) {
  TinyGraph g;
  const ValueId w = g.value("w", kImage, Role::parameter);
  const ValueId dw = g.value("dw", kImage, Role::parameter_gradient);
  g.graph.parameters.push_back({"w", w, dw, {}});
  g.node(made(Reorder{}), {w}, {dw});
  expect_layouts_refused(laid_out(g.graph, {w}), "'reorder' writes 'dw' as plain, but its parameter is nChw8c");
}

TEST(VerifyLayouts, RefusesADescriptionOfAnotherShape) {
  TinyGraph g;
  const ValueId x = g.value("x", kImage);
  g.node(relu(), {x}, {g.value("y", kImage)});
  LaidOutGraph graph = laid_out(g.graph, {});
  graph.descs[0].shape = kHalfImage;
  expect_layouts_refused(graph,
                         "'activation.forward' names 'x', which is f32 2x8x4x4 but is laid out as f32 2x8x2x2 plain");
}

TEST(VerifyLayouts, RefusesAMaskReadInAnotherOrderThanItsWriters) {
  MaskedNorm g;
  for (const ValueId id : {g.x, g.other}) g.graph.values[static_cast<std::size_t>(id)].role = Role::activation;
  const ValueId y = g.graph.nodes.front().out[0];
  EXPECT_NO_THROW(verify_layouts(laid_out(g.graph, {g.x, g.other, y}), cpu_backend(), "a pass"));

  const ValueId plain_x = g.value("plain x", kImage);
  const ValueId plain_dy = g.value("plain dy", kImage);
  g.graph.nodes.back().in[0] = plain_dy;
  g.graph.nodes.back().in[1] = plain_x;
  expect_layouts_refused(laid_out(g.graph, {g.x, g.other, y}),
                         "'batch_norm.backward_reduce' reads the mask 'mask' in the order of 2x8x4x4 plain, but it was "
                         "written in the order of 2x8x4x4 nChw8c");
}

}  // namespace
}  // namespace trifold::test
