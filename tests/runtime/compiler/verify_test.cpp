// The verifier refuses a graph or program with one fault, in a sentence that names the pass, the node and the value.
#include "runtime/compiler/verify.h"

#include <functional>

#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/shape_ops.h"

namespace trifold {
namespace {

void expect_refused(const std::function<void()>& verify, const std::string& sentence) {
  try {
    verify();
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "internal error: after a pass, " + sentence);
    EXPECT_EQ(error.fault(), Fault::runtime);
  }
}

template <class T>
OpPtr made(T op) {
  return std::make_shared<const T>(std::move(op));
}
OpPtr relu() {
  return made(ActivationForward{});
}
OpPtr relu_gradient() {
  return made(ActivationBackward{});
}

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
    trifold::expect_refused([&] { verify_graph(graph, "a pass"); }, sentence);
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

// --- memory

class IdleKernel final : public Kernel {
 public:
  IdleKernel(std::size_t scratch, std::size_t lasting) : scratch_bytes_(scratch), lasting_bytes_(lasting) {}
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::size_t lasting_bytes() const override { return lasting_bytes_; }
  void run(const StepContext&) override {}

 private:
  std::size_t scratch_bytes_;
  std::size_t lasting_bytes_;
};

struct Scratch {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::size_t lasting = 0;
};

// Values of 64 bytes in regions of 512.
struct TinyProgram {
  static constexpr std::size_t kBytes = 64;
  Program program;
  GivenPlaces given;
  CompileOptions options;

  TinyProgram() {
    for (std::size_t& bytes : program.memory.region_bytes) bytes = 512;
  }
  ValueId value(const std::string& name, Region region, std::size_t offset, Role role = Role::activation,
                std::size_t bytes = kBytes) {
    const Shape shape{static_cast<std::int64_t>(bytes / sizeof(float))};
    program.descs.push_back({shape, DType::f32, {}});
    program.memory.places.push_back({region, offset, bytes});
    return program.graph.add_value({name, shape, DType::f32, role});
  }
  ValueId input() { return value("x", Region::inputs, 0, Role::input); }
  ValueId in_arena(const std::string& name, std::size_t offset) { return value(name, Region::arena, offset); }

  void node(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out, Phase phase = Phase::forward,
            const Scratch& scratch = {}) {
    program.kernels.push_back(op->is_view() ? nullptr : std::make_unique<IdleKernel>(scratch.bytes, scratch.lasting));
    program.memory.scratch_offset.push_back(scratch.offset);
    program.graph.nodes.push_back({std::move(op), std::move(in), std::move(out), phase});
  }
  void verify() const { verify_memory(program, given, options, "a pass"); }
  void expect_refused(const std::string& sentence) const {
    trifold::expect_refused([&] { verify(); }, sentence);
  }
};

TEST(VerifyMemory, AcceptsMemoryThatIsUsedAgain) {
  TinyProgram p;
  const ValueId x = p.input();
  const ValueId a = p.in_arena("a", 0);
  const ValueId b = p.in_arena("b", 64);
  p.node(relu(), {x}, {a});
  p.node(relu(), {a}, {b});
  p.node(relu(), {b}, {p.in_arena("c", 0)});
  EXPECT_NO_THROW(p.verify());
}

TEST(VerifyMemory, RefusesLiveBuffersThatOverlap) {
  TinyProgram p;
  const ValueId x = p.input();
  const ValueId a = p.in_arena("a", 0);
  const ValueId b = p.in_arena("b", 32);
  p.node(relu(), {x}, {a});
  p.node(relu(), {x}, {b});
  p.node(made(Add{}), {b, a}, {p.in_arena("sum", 128)});
  p.expect_refused("'add' reads 'a' in arena 0..64, but bytes 32..64 hold 'b' of 'activation.forward'");
}

TEST(VerifyMemory, RefusesAViewOutsideOfWhatItViews) {
  TinyProgram p;
  const ValueId x = p.input();
  p.node(made(Reshape{}), {x}, {p.in_arena("view", 0)});
  p.expect_refused("'reshape' views 'x' in inputs 0..64 as 'view' in arena 0..64, which lies outside of it");
}

TEST(VerifyMemory, RefusesAViewOfMemoryThatWasUsedAgain) {
  TinyProgram p;
  const ValueId x = p.input();
  const ValueId a = p.in_arena("a", 0);
  const ValueId view = p.in_arena("view", 0);
  p.node(relu(), {x}, {a});
  p.node(made(Reshape{}), {a}, {view});
  p.node(relu(), {x}, {p.in_arena("b", 0)});
  p.node(relu(), {view}, {p.in_arena("c", 64)});
  p.expect_refused(
      "'activation.forward' reads 'view' in arena 0..64, but bytes 0..64 hold 'b' of 'activation.forward'");
}

TEST(VerifyMemory, RefusesAReadOfWhatNobodyWrote) {
  TinyProgram p;
  p.node(relu(), {p.in_arena("a", 0)}, {p.in_arena("b", 64)});
  p.expect_refused("'activation.forward' reads 'a' in arena 0..64 before anything has written it there");
}

TEST(VerifyMemory, RefusesPlacesBeyondTheRegion) {
  TinyProgram p;
  p.in_arena("a", 480);
  p.expect_refused("'a' lies in arena 480..544, beyond its end at 512");
}

TEST(VerifyMemory, RefusesPlacesBeyondTheSlot) {
  TinyProgram p;
  p.program.memory.slots = 4;
  p.value("a", Region::kept, 96);
  p.expect_refused("'a' lies in kept activations 96..160, beyond its end at 128");
}

TEST(VerifyMemory, RefusesAPlaceOfAnotherSize) {
  TinyProgram p;
  p.in_arena("a", 0);
  p.program.memory.places.back().bytes = 32;
  p.expect_refused("'a' has 32 bytes of memory but needs 64");
}

TEST(VerifyMemory, RefusesAValueWithoutMemory) {
  TinyProgram p;
  p.node(relu(), {p.input()}, {p.value("a", Region::none, 0)});
  p.expect_refused("'activation.forward' uses 'a', which has no memory");
}

TEST(VerifyMemory, RefusesAnOutputOverAnInputThatTheOpStillReads) {
  TinyProgram p;
  const ValueId x = p.input();
  const ValueId a = p.in_arena("a", 0);
  p.node(relu(), {x}, {a});
  p.node(made(Concat{}), {a}, {p.in_arena("b", 0)});  // a relu may do this
  p.expect_refused("'concat' writes 'b' to arena 0..64 while it reads 'a' in arena 0..64");
}

TEST(VerifyMemory, RefusesTwoOutputsInOnePlace) {
  TinyProgram p;
  p.node(made(SplitChannels{}), {p.input()}, {p.in_arena("a", 0), p.in_arena("b", 32)});
  p.expect_refused("'split_channels' writes 'a' and 'b' to the same bytes of arena 32..96");
}

TEST(VerifyMemory, RefusesScratchOverItsOwnTensors) {
  TinyProgram p;
  p.node(relu(), {p.input()}, {p.in_arena("a", 64)}, Phase::forward, {.offset = 0, .bytes = 65});
  p.expect_refused("'activation.forward' has its scratch in arena 0..65 over 'a' in arena 64..128");
}

TEST(VerifyMemory, RefusesScratchOverLiveValues) {
  TinyProgram p;
  const ValueId x = p.input();
  const ValueId a = p.in_arena("a", 0);
  p.node(relu(), {x}, {a});
  p.node(relu(), {x}, {p.in_arena("b", 128)}, Phase::forward, {.offset = 0, .bytes = 16});
  p.node(relu(), {a}, {p.in_arena("c", 256)});
  p.expect_refused(
      "'activation.forward' reads 'a' in arena 0..64, but bytes 0..16 hold the scratch of 'activation.forward'");
}

TEST(VerifyMemory, RefusesLastingMemoryOfTwoKernelsInOnePlace) {
  TinyProgram p;
  const ValueId x = p.input();
  p.node(relu(), {x}, {p.in_arena("a", 0)}, Phase::forward, {.offset = 0, .lasting = 64});
  p.node(made(Concat{}), {x}, {p.in_arena("b", 64)}, Phase::forward, {.offset = 32, .lasting = 64});
  p.expect_refused("'concat' keeps memory in messages 32..96, which holds the scratch of 'activation.forward'");
}

TEST(VerifyMemory, RefusesToKeepInTheArenaWhatAnotherMicroBatchOverwrites) {
  TinyProgram p;
  const ValueId x = p.input();
  const ValueId a = p.in_arena("a", 0);
  p.node(relu(), {x}, {a});
  p.node(relu(), {a}, {p.in_arena("b", 64)}, Phase::backward_input);
  EXPECT_NO_THROW(p.verify());
  p.options.micro_batches.interleave = true;
  p.expect_refused("'activation.forward' reads 'a' in arena 0..64, but bytes 0..64 hold nothing of this micro-batch");
}

TEST(VerifyMemory, RefusesWeightsThatAnotherMicroBatchUpdates) {
  TinyProgram p;
  const ValueId w = p.value("w", Region::parameters, 0, Role::parameter);
  p.program.graph.parameters.push_back({"w", w, kNoValue, {}});
  p.node(relu(), {w}, {p.in_arena("a", 0)});
  p.node(relu(), {w}, {p.in_arena("b", 64)}, Phase::backward_input);
  p.options.micro_batches.interleave = true;
  EXPECT_NO_THROW(p.verify());
  p.options.stashes_weights = true;
  p.expect_refused(
      "'activation.forward' reads 'w' in parameters 0..64, but bytes 0..64 hold the update of another micro-batch");
}

TEST(VerifyMemory, RefusesAnOutputThatIsGoneAtTheEnd) {
  TinyProgram p;
  const ValueId x = p.input();
  p.program.graph.output = p.in_arena("y", 0);
  p.node(relu(), {x}, {p.program.graph.output});
  p.node(relu(), {x}, {p.in_arena("a", 32)});
  p.expect_refused("the result 'y' is no longer in arena 0..64 at the end");
}

TEST(VerifyMemory, RefusesWritesToWhatIsBeingSent) {
  TinyProgram p;
  const ValueId x = p.input();
  const ValueId a = p.in_arena("a", 0);
  p.node(relu(), {x}, {a});
  p.node(made(Send{}), {a}, {});
  p.node(relu(), {x}, {p.in_arena("b", 0)});
  p.expect_refused(
      "'activation.forward' writes 'b' of 'activation.forward' to arena 0..64, which 'send' has not finished with");
}

// Two gradients of 64 bytes, added up aside as one stretch.
struct SummedAside : TinyProgram {
  ValueId x = input();
  ValueId dw = value("dw", Region::gradients, 0, Role::parameter_gradient);
  ValueId db = value("db", Region::gradients, 64, Role::parameter_gradient);
  ValueId both = value("gradients", Region::gradients, 0, Role::parameter_gradient, 2 * kBytes);

  SummedAside() {
    program.graph.parameters.push_back({"w", value("w", Region::parameters, 0, Role::parameter), dw, {}});
    program.graph.parameters.push_back({"b", value("b", Region::parameters, 64, Role::parameter), db, {}});
    node(relu(), {x}, {dw}, Phase::backward_weight);
  }
  void sum() {
    AllReduce op;
    op.aside = true;
    node(made(op), {both}, {both}, Phase::backward_weight);
  }
  void make_db() { node(made(Concat{}), {x}, {db}, Phase::backward_weight); }
};

TEST(VerifyMemory, RefusesToSumGradientsThatAreNotThereYet) {
  SummedAside p;
  p.make_db();
  p.sum();
  p.node(made(JoinSums{}), {p.both}, {p.both}, Phase::update);
  EXPECT_NO_THROW(p.verify());

  SummedAside early;
  early.sum();
  early.make_db();
  early.expect_refused(
      "'concat' writes 'db' of 'concat' to gradients 64..128, which 'all_reduce' has not finished with");
}

TEST(VerifyMemory, RefusesGradientsThatAreStillBeingSummed) {
  SummedAside p;
  p.make_db();
  p.sum();
  p.node(made(GradientSquares{}), {p.both}, {p.value("squares", Region::states, 0, Role::state)}, Phase::update);
  p.expect_refused("'optimizer.squares' reads 'gradients' in gradients 0..128, which 'all_reduce' is still adding up");
}

TEST(VerifyMemory, RefusesPartsOutsideOfTheirWhole) {
  TinyProgram p;
  const ValueId whole = p.value("whole", Region::arena, 0, Role::activation, 128);
  const ValueId part = p.in_arena("part", 96);
  p.given.packed.push_back({part, whole, 96});
  p.expect_refused("'part' lies in arena 96..160, outside of 'whole' in arena 0..128, which it is part of");
}

TEST(VerifyMemory, KnowsThatPartsAreWrittenWithTheirWhole) {
  TinyProgram p;
  const ValueId whole = p.value("whole", Region::arena, 0, Role::activation, 128);
  const ValueId part = p.in_arena("part", 64);
  p.given.packed.push_back({part, whole, 64});
  const ValueId mine = p.value("mine", Region::parameters, 0, Role::parameter);
  p.node(made(AllGather{}), {mine}, {whole});
  p.node(relu(), {part}, {p.in_arena("y", 128)});
  EXPECT_NO_THROW(p.verify());
}

// --- what ranks do together

Program with_sums(std::initializer_list<Axis> axes) {
  Program program;
  for (const Axis axis : axes) {
    AllReduce sum;
    sum.axis = axis;
    program.graph.nodes.push_back({made(sum), {}, {}, Phase::forward, -1});
  }
  return program;
}

TEST(VerifyExchanges, RefusesAMeetingThatAnotherRankDoesNotHave) {
  const Program two = with_sums({Axis::tensor, Axis::tensor});
  const Program one = with_sums({Axis::tensor});
  const std::string sentence = "'all_reduce' is an exchange that another rank does not have";
  expect_refused([&] { verify_exchanges(two, one, Axis::tensor, "a pass"); }, sentence);
  expect_refused([&] { verify_exchanges(one, two, Axis::tensor, "a pass"); }, sentence);
}

TEST(VerifyExchanges, RefusesMeetingsInAnotherOrder) {
  Program first = with_sums({Axis::tensor});
  Program second = with_sums({Axis::tensor});
  first.graph.nodes.push_back({made(GatherChannels{}), {}, {}, Phase::forward, -1});
  second.graph.nodes.insert(second.graph.nodes.begin(), {made(GatherChannels{}), {}, {}, Phase::forward, -1});
  expect_refused([&] { verify_exchanges(first, second, Axis::tensor, "a pass"); },
                 "'all_reduce' meets 'gather_channels' of another rank");
}

TEST(VerifyExchanges, LooksAlongOneAxis) {
  EXPECT_NO_THROW(
      verify_exchanges(with_sums({Axis::tensor}), with_sums({Axis::tensor, Axis::data}), Axis::tensor, "a pass"));
}

}  // namespace
}  // namespace trifold
