// The verifier refuses a program whose memory is wrong in one place: a value that is gone, two that overlap, a part
// outside of its whole.
#include <gtest/gtest.h>

#include "kernels/ops/collective.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/shape_ops.h"
#include "runtime/compiler/verify.h"
#include "runtime/compiler/verify_fixture.h"

namespace trifold::test {
namespace {

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
    test::expect_refused([&] { verify(); }, sentence);
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

}  // namespace
}  // namespace trifold::test
