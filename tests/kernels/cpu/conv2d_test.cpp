// Every candidate for a convolution, in the layouts that the CPU backend chooses, against plain double loops.
#include "kernels/ops/conv2d.h"

#include "kernels/backend.h"
#include "kernels/cpu/conv_candidates.h"
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

struct ShapedValues {
  Shape shape;
  const Values* values;  // given, or expected
};

struct ConvOptions {
  int threads = 1;
  bool strict_math = false;
};

// Winograd loses some accuracy; nothing else does.
double tolerance(const Kernel& kernel) {
  return kernel.implementation().find("wino") != std::string::npos ? 5e-5 : 1e-5;
}

void check_kernel(Kernel& kernel, const std::string& what, std::span<const TensorDesc> in,
                  std::span<const TensorDesc> out, std::span<const ShapedValues> given,
                  std::span<const ShapedValues> expected) {
  std::vector<GuardedMemory> in_memory, out_memory;
  std::vector<std::byte*> in_data, out_data;
  for (std::size_t i = 0; i < in.size(); ++i) in_data.push_back(in_memory.emplace_back(in[i], *given[i].values).data());
  for (const TensorDesc& desc : out) out_data.push_back(out_memory.emplace_back(desc.bytes()).data());
  GuardedMemory scratch(kernel.scratch_bytes());
  kernel.bind(in_data, out_data, scratch.data());
  scratch.spoil();
  kernel.run({});
  {
    const AllocationCounter allocations;
    kernel.run({});
    EXPECT_EQ(allocations.count(), 0) << what;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_LT(test::relative_error(out_memory[i].plain(out[i]), *expected[i].values), tolerance(kernel)) << what;
    EXPECT_TRUE(out_memory[i].guard_intact()) << what;
  }
  EXPECT_TRUE(scratch.guard_intact()) << what;
}

// All candidates; returns their names.
std::vector<std::string> check_op(const Op& op, const ConvOptions& options, std::span<const ShapedValues> given,
                                  std::span<const ShapedValues> expected) {
  std::vector<TensorDesc> in, out;
  for (const ShapedValues& tensor : given) in.push_back({tensor.shape});
  for (const ShapedValues& tensor : expected) out.push_back({tensor.shape});
  const LayoutChoice layouts = cpu_backend().choose_layouts(op, in, out);
  for (std::size_t i = 0; i < in.size(); ++i) in[i].layout = layouts.in[i];
  for (std::size_t i = 0; i < out.size(); ++i) out[i].layout = layouts.out[i];

  std::vector<std::string> names;
  for (const KernelPtr& kernel : conv_candidates({op, in, out, options.threads, options.strict_math})) {
    names.push_back(kernel->implementation());
    check_kernel(*kernel, to_string(op) + " " + to_string(given[0].shape) + " by " + names.back(), in, out, given,
                 expected);
  }
  return names;
}

struct Names {
  std::vector<std::string> forward, backward_data, backward_weights;
};

Names check(const ConvCase& c, bool bias, bool relu, const ConvOptions& options = {}) {
  const ConvReference reference(c, bias, relu);
  const ShapedValues x = {c.x(), &reference.x}, w = {c.w(), &reference.w}, dy = {c.y(), &reference.dy};
  const ShapedValues bias_given = {{c.out}, &reference.bias}, dbias = {{c.out}, &reference.dbias};
  const ShapedValues y = {c.y(), &reference.y}, dx = {c.x(), &reference.dx}, dw = {c.w(), &reference.dw};

  Conv2dForward forward;
  forward.args = c.args;
  forward.bias = bias;
  forward.relu = relu;
  std::vector<ShapedValues> forward_in = {x, w};
  if (bias) forward_in.push_back(bias_given);

  Conv2dBackwardData backward_data;
  backward_data.args = c.args;

  Conv2dBackwardWeights backward_weights;
  backward_weights.args = c.args;
  backward_weights.bias = bias;
  std::vector<ShapedValues> gradients = {dw};
  if (bias) gradients.push_back(dbias);

  return {check_op(forward, options, forward_in, std::vector{y}),
          check_op(backward_data, options, std::vector{dy, w}, std::vector{dx}),
          check_op(backward_weights, options, std::vector{x, dy}, gradients)};
}

bool any_winograd(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [](const std::string& name) { return name.find("wino") != std::string::npos; });
}

TEST(Conv2d, ThreeByThree) {
  for (const int threads : {1, 2}) {
    check({.in = 16, .out = 32, .args = {.pad = {1, 1}}}, true, true, {.threads = threads});
    check({.in = 32, .image = {13, 6}, .out = 16}, false, false, {.threads = threads});
    check({.in = 16, .out = 16, .args = {.pad = {1, 0}}}, true, false, {.threads = threads});
  }
}

TEST(Conv2d, StridesAndKernels) {
  check({.in = 16, .out = 32, .args = {.stride = {2, 2}, .pad = {1, 1}}}, false, true);
  check({.in = 32, .out = 16, .kernel = {1, 1}}, true, false);
  check({.in = 16, .out = 16, .kernel = {1, 1}, .args = {.stride = {2, 2}}}, false, false, {.threads = 2});
  check({.in = 16, .image = {11, 10}, .out = 16, .kernel = {5, 3}, .args = {.stride = {2, 1}, .pad = {2, 1}}}, true,
        true);
  check({.batch = 1, .in = 16, .image = {3, 3}, .out = 16}, true, false);
}

TEST(Conv2d, Dilation) {
  check({.in = 16, .image = {11, 12}, .out = 16, .args = {.pad = {2, 2}, .dilation = {2, 2}}}, true, true);
  check({.in = 6, .image = {11, 12}, .out = 10, .args = {.dilation = {3, 2}}}, true, false);
}

TEST(Conv2d, FirstLayers) {
  for (const int threads : {1, 2}) {
    check({.in = 1, .image = {28, 27}, .out = 32}, true, true, {.threads = threads});
    check({.in = 3, .image = {16, 16}, .out = 16, .args = {.pad = {1, 1}}}, false, false, {.threads = threads});
    check({.in = 3, .image = {23, 24}, .out = 16, .kernel = {7, 7}, .args = {.stride = {2, 2}, .pad = {3, 3}}}, true,
          false, {.threads = threads});
  }
  check({.in = 20, .out = 16}, true, false);
}

TEST(Conv2d, ChannelsThatDoNotDivide) {
  check({.in = 16, .out = 10}, true, true);
  check({.in = 5, .out = 7, .args = {.stride = {1, 2}, .pad = {1, 1}}}, true, true, {.threads = 2});
  check({.in = 1, .out = 1}, true, false);
}

TEST(Conv2d, Groups) {
  check({.in = 32, .out = 64, .args = {.pad = {1, 1}, .groups = 2}}, true, true);
  check({.in = 24, .out = 16, .args = {.groups = 2}}, true, false);
  check({.in = 6, .out = 9, .args = {.pad = {1, 1}, .groups = 3}}, false, false, {.threads = 2});
  check({.in = 16, .out = 32, .args = {.groups = 16}}, true, false);  // two outputs a channel: not depthwise
}

TEST(Conv2d, Depthwise) {
  for (const int threads : {1, 2})
    check({.in = 32, .out = 32, .args = {.pad = {1, 1}, .groups = 32}}, true, true, {.threads = threads});
  check({.in = 16, .out = 16, .kernel = {5, 5}, .args = {.stride = {2, 2}, .pad = {2, 2}, .groups = 16}}, false, false);
  check({.in = 5, .out = 5, .args = {.groups = 5}}, true, false);
}

TEST(Conv2d, StrictMathHasNoWinograd) {
  const ConvCase c = {.in = 16, .out = 16, .args = {.pad = {1, 1}}};
  const Names usual = check(c, false, false);
  EXPECT_TRUE(any_winograd(usual.forward) && any_winograd(usual.backward_data) && any_winograd(usual.backward_weights));
  const Names strict = check(c, false, false, {.strict_math = true});
  EXPECT_FALSE(any_winograd(strict.forward) || any_winograd(strict.backward_data) ||
               any_winograd(strict.backward_weights));
}

TEST(Conv2d, BackendMakesOneOfTheCandidates) {
  Conv2dForward op;
  const TensorDesc x = {{1, 16, 6, 6}, DType::f32, {Order::channel_block, simd_lanes()}};
  const TensorDesc w = {{16, 16, 3, 3}, DType::f32, {Order::conv_block, simd_lanes()}};
  const TensorDesc y = {{1, 16, 4, 4}, DType::f32, {Order::channel_block, simd_lanes()}};
  const std::vector in = {x, w}, out = {y};
  const KernelRequest request = {op, in, out, 1};
  const std::string chosen = cpu_backend().make(request)->implementation();
  EXPECT_TRUE(std::ranges::any_of(conv_candidates(request),
                                  [&](const KernelPtr& kernel) { return kernel->implementation() == chosen; }));
}

}  // namespace
}  // namespace trifold::cpu
