#include "kernels/cpu/onednn.h"

#include <numeric>

#include "kernels/cpu/conv_reference.h"
#include "kernels/cpu/simd/isa.h"
#include "support/allocation_counter.h"

namespace trifold::cpu {
namespace {

using test::AllocationCounter;
using test::ConvCase;
using test::ConvReference;
using test::GuardedMemory;
using test::Values;

const Layout kPlain;
const Layout kImage = {Order::channel_block, 8};

struct Layouts {
  Layout x, w, y;
};

// Runs one pass and returns its relative error; checks scratch bounds and allocations on the way.
double error_of(ConvPrimitive& primitive, const ConvProblem& problem, const ConvReference& reference) {
  const bool forward = problem.pass == Pass::forward;
  GuardedMemory x(problem.x, reference.x);
  GuardedMemory w(problem.w, reference.w);
  GuardedMemory y(problem.y, reference.dy);
  GuardedMemory bias({{problem.y.shape[1]}}, reference.bias);
  GuardedMemory scratch(primitive.scratch_bytes());
  GuardedMemory& result = forward ? y : problem.pass == Pass::backward_data ? x : w;
  const TensorDesc& result_desc = forward ? problem.y : problem.pass == Pass::backward_data ? problem.x : problem.w;
  const Values& expected = forward ? reference.y : problem.pass == Pass::backward_data ? reference.dx : reference.dw;

  primitive.bind({x.floats(), w.floats(), y.floats(), bias.floats()}, scratch.data());
  double error = 0;
  for (int run = 0; run < 2; ++run) {  // other kernels leave their data in the scratch between runs
    scratch.spoil();
    result.spoil();
    if (!forward && problem.bias) bias.spoil();
    {
      const AllocationCounter allocations;
      primitive.execute();
      EXPECT_EQ(allocations.count(), 0);
    }
    error = std::max(error, test::relative_error(result.plain(result_desc), expected));
    if (!forward && problem.bias)
      error = std::max(error, test::relative_error(bias.plain({{problem.y.shape[1]}}), reference.dbias));
  }
  for (const GuardedMemory* memory : {&x, &w, &y, &bias, &scratch}) EXPECT_TRUE(memory->guard_intact());
  return error;
}

ConvProblem problem_of(const ConvCase& c, const Layouts& layouts, Pass pass, int threads) {
  return {.pass = pass,
          .x = {c.x(), DType::f32, layouts.x},
          .w = {c.w(), DType::f32, layouts.w},
          .y = {c.y(), DType::f32, layouts.y},
          .args = c.args,
          .bias = pass != Pass::backward_data,
          .relu = pass == Pass::forward,
          .threads = threads};
}

constexpr Pass kPasses[] = {Pass::forward, Pass::backward_data, Pass::backward_weights};

// Every pass with every conversion that oneDNN has; one of them must exist.
void check(const ConvCase& c, const Layouts& layouts) {
  const ConvReference reference(c, true, true);
  for (const Pass pass : kPasses)
    for (const int threads : {1, 2}) {
      int made = 0;
      for (const Conversion conversion : {Conversion::none, Conversion::weights, Conversion::all, Conversion::plain})
        for (const bool accept_reference : {false, true}) {
          if (accept_reference && threads > 1) continue;
          ConvProblem problem = problem_of(c, layouts, pass, threads);
          problem.conversion = conversion;
          problem.accept_reference = accept_reference;
          auto primitive = ConvPrimitive::create(problem);
          if (!primitive) continue;
          ++made;
          EXPECT_LT(error_of(*primitive, problem, reference), 1e-5)
              << c.text() << " pass " << static_cast<int>(pass) << " conversion " << static_cast<int>(conversion)
              << " by " << primitive->implementation();
        }
      EXPECT_GT(made, 0) << c.text();
    }
}

TEST(OneDnnConv, BlockedImages) {
  const Layouts layouts = {kImage, {Order::conv_block, 8}, kImage};
  check({.in = 16, .out = 24, .args = {.pad = {1, 1}}}, layouts);
  check({.in = 8, .out = 16, .args = {.stride = {2, 2}, .pad = {1, 1}}}, layouts);
  check({.in = 16, .out = 8, .kernel = {1, 1}}, layouts);
  check({.in = 16, .out = 8, .kernel = {1, 1}, .args = {.stride = {2, 2}}}, layouts);
  check({.in = 8, .out = 8, .kernel = {5, 3}, .args = {.stride = {1, 2}, .pad = {2, 0}}}, layouts);
}

TEST(OneDnnConv, DilatedBlockedImages) {
  check({.in = 8, .out = 16, .args = {.pad = {2, 1}, .dilation = {2, 3}}}, {kImage, {Order::conv_block, 8}, kImage});
}

TEST(OneDnnConv, FirstLayers) {
  const Layouts layouts = {kPlain, {Order::conv_first, 8}, kImage};
  check({.in = 3, .out = 16, .args = {.pad = {1, 1}}}, layouts);
  check({.in = 1, .out = 8}, layouts);
  check({.in = 3, .image = {15, 14}, .out = 8, .kernel = {7, 7}, .args = {.stride = {2, 2}, .pad = {3, 3}}}, layouts);
  check({.in = 20, .out = 8}, layouts);
}

TEST(OneDnnConv, PlainImages) {
  check({.in = 5, .out = 7, .args = {.stride = {2, 1}, .pad = {0, 1}}}, {});
  check({.in = 3, .out = 10, .args = {.pad = {2, 2}, .dilation = {2, 2}}}, {});
  check({.in = 8, .out = 10}, {kImage, kPlain, kPlain});
}

TEST(OneDnnConv, Groups) {
  check({.in = 16, .out = 32, .args = {.pad = {1, 1}, .groups = 2}}, {kImage, {Order::conv_block, 8}, kImage});
  check({.in = 16, .out = 16, .args = {.stride = {2, 2}, .pad = {1, 1}, .groups = 16}},
        {kImage, {Order::conv_depthwise, 8}, kImage});
  check({.in = 6, .out = 9, .args = {.pad = {1, 1}, .groups = 3}}, {});
  check({.in = 5, .out = 5, .args = {.groups = 5}}, {});
}

TEST(OneDnnConv, RefusesWhatOnlyReferenceLoopsCanDo) {
  // oneDNN's optimised kernels have no such mixture of layouts.
  const ConvProblem problem = problem_of({.in = 8, .out = 10}, {kImage, kPlain, kPlain}, Pass::forward, 1);
  EXPECT_FALSE(ConvPrimitive::create(problem).has_value());
  ConvProblem accepting = problem;
  accepting.accept_reference = true;
  EXPECT_TRUE(ConvPrimitive::create(accepting).has_value());
}

TEST(OneDnnConv, SaysWhichWeightsItWants) {
  const Layouts layouts = {kImage, {Order::conv_block, 8}, kImage};
  ConvProblem problem = problem_of({.in = 16, .out = 16}, layouts, Pass::backward_data, 1);
  problem.conversion = Conversion::weights;
  const auto primitive = ConvPrimitive::create(problem);
  if (active_isa() != Isa::avx2 || !primitive) GTEST_SKIP() << "about oneDNN's AVX2 kernels";
  EXPECT_EQ(primitive->wanted_weights(), "OIhw8o8i");
  EXPECT_TRUE(primitive->implementation().ends_with("+reorder:w")) << primitive->implementation();
  EXPECT_GE(primitive->scratch_bytes(), problem.w.bytes());
}

// The kernels of some versions end with an illegal instruction or give wrong numbers. Bites only on processors with
// AMX.
TEST(OneDnnConv, LeavesAmxOutWhereTheStrideIsAboveOne) {
  const Layout blocked = {Order::channel_block, 16};
  const ConvCase c = {
      .batch = 16, .in = 16, .image = {10, 10}, .out = 32, .kernel = {1, 1}, .args = {.stride = {2, 2}}};
  for (const Pass pass : kPasses)
    for (const Conversion conversion : {Conversion::none, Conversion::weights, Conversion::all, Conversion::plain}) {
      ConvProblem problem = problem_of(c, {blocked, {Order::conv_block, 16}, blocked}, pass, 1);
      problem.x.dtype = problem.y.dtype = DType::bf16;
      if (pass != Pass::backward_weights) problem.w.dtype = DType::bf16;
      problem.conversion = conversion;
      const auto primitive = ConvPrimitive::create(problem);
      const std::string name = primitive ? primitive->implementation() : "";
      EXPECT_EQ(name.find("amx"), std::string::npos) << name;
    }
}

TEST(OneDnnInnerProduct, AllPasses) {
  const std::int64_t batch = 5, in = 13, out = 7;
  const ConvCase same = {.batch = batch, .in = in, .image = {1, 1}, .out = out, .kernel = {1, 1}};
  const ConvReference reference(same, true, true);
  for (const Pass pass : kPasses)
    for (const int threads : {1, 2}) {
      auto primitive = InnerProductPrimitive::create({.pass = pass,
                                                      .batch = batch,
                                                      .in = in,
                                                      .out = out,
                                                      .bias = pass != Pass::backward_data,
                                                      .relu = pass == Pass::forward,
                                                      .threads = threads});
      ASSERT_TRUE(primitive.has_value());
      GuardedMemory x({same.x()}, reference.x), w({same.w()}, reference.w), y({same.y()}, reference.dy);
      GuardedMemory bias({{out}}, reference.bias), scratch(primitive->scratch_bytes());
      GuardedMemory& result = pass == Pass::forward ? y : pass == Pass::backward_data ? x : w;
      primitive->bind({x.floats(), w.floats(), y.floats(), bias.floats()}, scratch.data());
      result.spoil();
      {
        const AllocationCounter allocations;
        primitive->execute();
        EXPECT_EQ(allocations.count(), 0);
      }
      const TensorDesc desc = {pass == Pass::forward ? same.y() : pass == Pass::backward_data ? same.x() : same.w()};
      const Values& expected = pass == Pass::forward         ? reference.y
                               : pass == Pass::backward_data ? reference.dx
                                                             : reference.dw;
      EXPECT_LT(test::relative_error(result.plain(desc), expected), 1e-6) << static_cast<int>(pass);
      if (pass == Pass::backward_weights) {
        EXPECT_LT(test::relative_error(bias.plain({{out}}), reference.dbias), 1e-6);
      }
      EXPECT_TRUE(scratch.guard_intact() && result.guard_intact());
    }
}

TEST(OneDnnReorder, EveryLayoutThereAndBack) {
  struct Example {
    Shape shape;
    Layout layout;
  };
  const Example examples[] = {
      {{2, 16, 3, 5}, {Order::channel_block, 8}},  {{2, 32, 3, 5}, {Order::channel_block, 16}},
      {{16, 8, 3, 3}, {Order::conv_block, 8}},     {{16, 32, 1, 2}, {Order::conv_block, 16}},
      {{16, 3, 3, 3}, {Order::conv_first, 8}},     {{16, 1, 3, 3}, {Order::conv_depthwise, 8}},
      {{32, 3, 5, 5}, {Order::conv_first, 16}},    {{7, 16 * 6}, {Order::column_block, 8, 6}},
      {{7, 16}, {Order::channel_block, 8}},        {{3, 4}, {}},
      {{2, 16, 3, 5}, {Order::channel_block, 16}},
  };
  for (const Example& example : examples) {
    const TensorDesc plain = {example.shape};
    const TensorDesc laid = {example.shape, DType::f32, example.layout};
    const Values values = test::random_values(plain.elements(), 9);
    const GuardedMemory from(plain, values), expected(laid, values);
    const GuardedMemory there(laid.bytes()), back(plain.bytes());
    auto forth = ReorderPrimitive::create(plain, laid, 2);
    auto return_trip = ReorderPrimitive::create(laid, plain, 1);
    ASSERT_TRUE(forth && return_trip) << to_string(laid);
    const GuardedMemory scratch(std::max(forth->scratch_bytes(), return_trip->scratch_bytes()));
    forth->bind(from.data(), there.data(), scratch.data());
    return_trip->bind(there.data(), back.data(), scratch.data());
    const AllocationCounter allocations;
    forth->execute();
    return_trip->execute();
    EXPECT_EQ(allocations.count(), 0);
    EXPECT_EQ(std::memcmp(there.data(), expected.data(), laid.bytes()), 0) << to_string(laid);
    EXPECT_EQ(std::memcmp(back.data(), from.data(), plain.bytes()), 0) << to_string(laid);
    EXPECT_TRUE(there.guard_intact() && back.guard_intact());
  }
}

TEST(OneDnnReorder, Bytes) {
  const Shape shape = {2, 8, 3, 3};
  const TensorDesc plain = {shape, DType::u8}, laid = {shape, DType::u8, kImage};
  std::vector<std::uint8_t> from(static_cast<std::size_t>(shape.elements())), to(from.size());
  std::iota(from.begin(), from.end(), std::uint8_t{100});
  auto primitive = ReorderPrimitive::create(plain, laid, 1);
  ASSERT_TRUE(primitive.has_value());
  const GuardedMemory scratch(primitive->scratch_bytes());
  primitive->bind(from.data(), to.data(), scratch.data());
  primitive->execute();
  for (std::size_t i = 0; i < from.size(); ++i)
    EXPECT_EQ(to[static_cast<std::size_t>(offset_in(kImage, shape, static_cast<std::int64_t>(i)))], from[i]);
}

TEST(OneDnnReorder, RefusesTypesItDoesNotHave) {
  const TensorDesc desc = {{2, 8, 3, 3}, DType::f64};
  EXPECT_FALSE(ReorderPrimitive::create(desc, desc, 1).has_value());
}

TEST(AllocationCounterTest, SeesOurAllocationsOnly) {
  const AllocationCounter allocations;
  const auto ours = std::make_unique<int>(1);
  EXPECT_EQ(allocations.count(), 1);
  std::string grown(100, 'x');  // allocated inside the C++ library, on our behalf
  EXPECT_EQ(allocations.count(), 2);
}

}  // namespace
}  // namespace trifold::cpu
