// The kernels of linear layers and of reorders, as the CPU backend makes them, against plain double loops.
#include "kernels/ops/linear.h"

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/cpu/conv_reference.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/ops/shape_ops.h"
#include "support/allocation_counter.h"

namespace trifold::cpu {
namespace {

using test::AllocationCounter;
using test::ConvCase;
using test::ConvReference;
using test::GuardedMemory;
using test::Values;

struct DescribedValues {
  TensorDesc desc;
  const Values* values;  // given, or expected
};

void check(const Op& op, int threads, const std::vector<DescribedValues>& given,
           const std::vector<DescribedValues>& expected) {
  std::vector<TensorDesc> in, out;
  for (const DescribedValues& tensor : given) in.push_back(tensor.desc);
  for (const DescribedValues& tensor : expected) out.push_back(tensor.desc);
  const KernelPtr kernel = cpu_backend().make({op, in, out, threads});
  std::vector<GuardedMemory> memory;
  std::vector<std::byte*> in_data, out_data;
  for (const DescribedValues& tensor : given)
    in_data.push_back(memory.emplace_back(tensor.desc, *tensor.values).data());
  for (const TensorDesc& desc : out) out_data.push_back(memory.emplace_back(desc.bytes()).data());
  GuardedMemory scratch(kernel->scratch_bytes());
  kernel->bind(in_data, out_data, scratch.data());
  scratch.spoil();
  {
    const AllocationCounter allocations;
    kernel->run({});
    EXPECT_EQ(allocations.count(), 0) << to_string(op);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const GuardedMemory& result = memory[in.size() + i];
    EXPECT_LT(test::relative_error(result.plain(out[i]), *expected[i].values), 1e-5)
        << to_string(op) << " by " << kernel->implementation();
    EXPECT_TRUE(result.guard_intact());
  }
  EXPECT_TRUE(scratch.guard_intact());
}

// All passes of one layer; columns: the layout of x, w and their gradients.
void check_linear(std::int64_t batch, std::int64_t in, std::int64_t out, const Layout& columns, int threads) {
  const ConvReference reference({.batch = batch, .in = in, .image = {1, 1}, .out = out, .kernel = {1, 1}}, true, true);
  const TensorDesc x = {{batch, in}, DType::f32, columns}, w = {{out, in}, DType::f32, columns};
  const TensorDesc y = {{batch, out}}, bias = {{out}};
  LinearForward forward;
  forward.bias = forward.relu = true;
  check(forward, threads, {{x, &reference.x}, {w, &reference.w}, {bias, &reference.bias}}, {{y, &reference.y}});
  check(LinearBackwardData(), threads, {{y, &reference.dy}, {w, &reference.w}}, {{x, &reference.dx}});
  LinearBackwardWeights backward_weights;
  backward_weights.bias = true;
  check(backward_weights, threads, {{x, &reference.x}, {y, &reference.dy}},
        {{w, &reference.dw}, {bias, &reference.dbias}});
}

TEST(Linear, AllPasses) {
  for (const int threads : {1, 2}) {
    check_linear(5, 13, 7, {}, threads);
    check_linear(48, 100, 33, {}, threads);
    check_linear(1, 64, 10, {}, threads);
  }
}

TEST(Linear, ColumnsInTheOrderOfABlockedImage) {
  check_linear(6, 2L * simd_lanes() * 9, 10, {Order::column_block, simd_lanes(), 9}, 1);
}

TEST(Linear, RefusesColumnsInDifferentOrder) {
  const LinearForward op;
  const std::int64_t in = 4L * simd_lanes();
  const std::vector<TensorDesc> given = {{{2, in}, DType::f32, {Order::column_block, simd_lanes(), 4}}, {{3, in}}};
  const std::vector<TensorDesc> result = {{{2, 3}}};
  EXPECT_THROW(cpu_backend().make({op, given, result, 1}), Error);
}

TEST(Reorder, BetweenPlainAndBlocked) {
  const int lanes = simd_lanes();
  const Shape image = {2, 2 * lanes, 5, 3};
  const Values values = test::random_values(image.elements(), 5);
  const DescribedValues plain = {{image}, &values};
  const DescribedValues blocked = {{image, DType::f32, {Order::channel_block, lanes}}, &values};
  for (const int threads : {1, 2}) {
    check(Reorder(), threads, {plain}, {blocked});
    check(Reorder(), threads, {blocked}, {plain});
  }
}

}  // namespace
}  // namespace trifold::cpu
