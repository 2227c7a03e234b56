// Gemm and LinearGemm against plain loops in double, on every instruction set this machine has, over odd shapes; all
// outputs and scratch lie between guards that must survive.
#include "kernels/cpu/linear_gemm.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/parallel.h"
#include "core/philox.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/guarded_array.h"
#include "kernels/cpu/isa_tables.h"

TRIFOLD_TEST_TABLES(GemmLoops, gemm_loops)

namespace trifold::cpu {
namespace {

using Guarded = GuardedArray<float>;

float element(std::span<const float> values, std::int64_t index) {
  return values[static_cast<std::size_t>(index)];
}

// A sum of `terms` products of numbers below one.
void expect_sum(float actual, double expected, std::int64_t terms, const std::string& where) {
  ASSERT_NEAR(actual, expected, 1e-6 * (4 + std::sqrt(static_cast<double>(terms)))) << where;
}

class OnIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > active_isa()) GTEST_SKIP() << "this machine has no " << isa_name(GetParam());
  }
  const GemmLoops& loops() const { return gemm_loops_of(GetParam()); }
};

class GemmOnIsa : public OnIsa {};
class LinearOnIsa : public OnIsa {};

void check_gemm(const GemmShape& shape, int threads, bool accumulate, bool epilogue, const GemmLoops& loops) {
  const std::string where = fmt::format("{}x{}x{} ta {} tb {} threads {} accumulate {} epilogue {}", shape.m, shape.n,
                                        shape.k, shape.a_transposed, shape.b_transposed, threads, accumulate, epilogue);
  const std::int64_t a_stride = (shape.a_transposed ? shape.m : shape.k) + 3;
  const std::int64_t b_stride = (shape.b_transposed ? shape.k : shape.n) + 1;
  const std::int64_t c_stride = shape.n + 2;
  const auto a = random_floats((shape.a_transposed ? shape.k : shape.m) * a_stride, 1);
  const auto b = random_floats((shape.b_transposed ? shape.n : shape.k) * b_stride, 2);
  const auto bias = random_floats(shape.n, 3);
  Guarded c(shape.m * c_stride, 0.5f);
  const Gemm gemm(shape, threads, loops);
  Guarded scratch = scratch_of(gemm.scratch_bytes());
  gemm.run({.a = a,
            .a_stride = a_stride,
            .b = b,
            .b_stride = b_stride,
            .c = c.span(),
            .c_stride = c_stride,
            .accumulate = accumulate,
            .bias = epilogue ? std::span<const float>(bias) : std::span<const float>(),
            .relu = epilogue},
           scratch.bytes());
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      double sum = accumulate ? 0.5 : 0.0;
      for (std::int64_t k = 0; k < shape.k; ++k) {
        const float left = shape.a_transposed ? element(a, k * a_stride + i) : element(a, i * a_stride + k);
        const float right = shape.b_transposed ? element(b, j * b_stride + k) : element(b, k * b_stride + j);
        sum += static_cast<double>(left) * right;
      }
      if (epilogue) sum = std::max(sum + element(bias, j), 0.0);
      ASSERT_NO_FATAL_FAILURE(expect_sum(element(c.span(), i * c_stride + j), sum, shape.k, where));
    }
    for (std::int64_t j = shape.n; j < c_stride; ++j) ASSERT_EQ(element(c.span(), i * c_stride + j), 0.5f) << where;
  }
  c.expect_intact("c");
  scratch.expect_intact("scratch");
}

TEST_P(GemmOnIsa, EqualsPlainLoopsForAllTranspositionsAndTails) {
  const std::int64_t sizes[][3] = {{1, 1, 1},    {6, 16, 8},    {7, 17, 3},    {5, 33, 20},   {13, 70, 9},
                                   {64, 64, 64}, {23, 47, 300}, {199, 30, 33}, {9, 1050, 21}, {30, 40, 600}};
  for (const auto& size : sizes) {
    for (int flags = 0; flags < 16; ++flags) {
      for (int threads : {1, 2, 3}) {
        const GemmShape shape{.m = size[0],
                              .n = size[1],
                              .k = size[2],
                              .a_transposed = (flags & 1) != 0,
                              .b_transposed = (flags & 2) != 0};
        ASSERT_NO_FATAL_FAILURE(check_gemm(shape, threads, (flags & 4) != 0, (flags & 8) != 0, loops()));
      }
    }
  }
}

TEST_P(GemmOnIsa, SplitsALongSumAmongThreads) {
  for (int threads : {2, 4}) {
    ASSERT_NO_FATAL_FAILURE(
        check_gemm({.m = 12, .n = 18, .k = 5000, .b_transposed = true}, threads, true, true, loops()));
  }
}

TEST_P(GemmOnIsa, DoesNotDependOnTheTeamThatRunsTheParts) {
  const GemmShape shape{.m = 40, .n = 50, .k = 700};
  const auto a = random_floats(shape.m * shape.k, 1);
  const auto b = random_floats(shape.k * shape.n, 2);
  const Gemm gemm(shape, 4, loops());
  std::vector<float> results[2];
  const int team_before = thread_count();
  for (int run = 0; run < 2; ++run) {
    set_thread_count(run + 1);
    Guarded c(shape.m * shape.n);
    Guarded scratch = scratch_of(gemm.scratch_bytes());
    gemm.run({.a = a, .a_stride = shape.k, .b = b, .b_stride = shape.n, .c = c.span(), .c_stride = shape.n},
             scratch.bytes());
    results[run].assign(c.span().begin(), c.span().end());
  }
  set_thread_count(team_before);
  EXPECT_EQ(results[0], results[1]);
}

void check_linear(const LinearShape& shape, int threads, bool options, const GemmLoops& loops) {
  const std::int64_t batch = shape.batch, in = shape.in, out = shape.out;
  const std::string where = fmt::format("{} x {} -> {} threads {} options {}", batch, in, out, threads, options);
  const auto x = random_floats(batch * in, 1);
  const auto w = random_floats(out * in, 2);
  const auto bias = random_floats(out, 3);
  const auto dy = random_floats(batch * out, 4);
  const LinearGemm linear(shape, threads, loops);

  Guarded y(batch * out), dx(batch * in), dw(out * in, 0.25f), dbias(out, 0.25f);
  Guarded forward_scratch = scratch_of(linear.forward_scratch_bytes());
  Guarded data_scratch = scratch_of(linear.backward_data_scratch_bytes());
  Guarded weights_scratch = scratch_of(linear.backward_weights_scratch_bytes());
  linear.forward({.x = x,
                  .w = w,
                  .bias = options ? std::span<const float>(bias) : std::span<const float>(),
                  .y = y.span(),
                  .relu = options},
                 forward_scratch.bytes());
  linear.backward_data({.dy = dy, .w = w, .dx = dx.span()}, data_scratch.bytes());
  linear.backward_weights(
      {.x = x, .dy = dy, .dw = dw.span(), .dbias = options ? dbias.span() : std::span<float>(), .accumulate = options},
      weights_scratch.bytes());

  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = options ? element(bias, o) : 0.0;
      for (std::int64_t i = 0; i < in; ++i) sum += static_cast<double>(element(x, n * in + i)) * element(w, o * in + i);
      if (options) sum = std::max(sum, 0.0);
      ASSERT_NO_FATAL_FAILURE(expect_sum(element(y.span(), n * out + o), sum, in, "y of " + where));
    }
    for (std::int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (std::int64_t o = 0; o < out; ++o)
        sum += static_cast<double>(element(dy, n * out + o)) * element(w, o * in + i);
      ASSERT_NO_FATAL_FAILURE(expect_sum(element(dx.span(), n * in + i), sum, out, "dx of " + where));
    }
  }
  for (std::int64_t o = 0; o < out; ++o) {
    double dbias_sum = 0.25;
    for (std::int64_t n = 0; n < batch; ++n) dbias_sum += element(dy, n * out + o);
    ASSERT_NO_FATAL_FAILURE(
        expect_sum(element(dbias.span(), o), options ? dbias_sum : 0.25, batch, "dbias of " + where));
    for (std::int64_t i = 0; i < in; ++i) {
      double sum = options ? 0.25 : 0.0;
      for (std::int64_t n = 0; n < batch; ++n)
        sum += static_cast<double>(element(dy, n * out + o)) * element(x, n * in + i);
      ASSERT_NO_FATAL_FAILURE(expect_sum(element(dw.span(), o * in + i), sum, batch, "dw of " + where));
    }
  }
  for (const auto& [guarded, what] :
       {std::pair{&y, "y"}, std::pair{&dx, "dx"}, std::pair{&dw, "dw"}, std::pair{&dbias, "dbias"},
        std::pair{&forward_scratch, "forward scratch"}, std::pair{&data_scratch, "backward data scratch"},
        std::pair{&weights_scratch, "backward weights scratch"}}) {
    ASSERT_NO_FATAL_FAILURE(guarded->expect_intact(what)) << where;
  }
}

TEST_P(LinearOnIsa, EqualsPlainLoopsForFewAndManySamples) {
  const LinearShape shapes[] = {{1, 1, 1},     {1, 33, 7},    {2, 16, 6},   {7, 100, 13},  {8, 64, 64},
                                {15, 9, 37},   {16, 300, 50}, {17, 31, 5},  {24, 70, 11},  {25, 513, 19},
                                {32, 128, 12}, {33, 20, 10},  {40, 65, 31}, {128, 64, 10}, {128, 20, 10}};
  for (const LinearShape& shape : shapes) {
    for (int threads : {1, 2, 3}) {
      for (bool options : {false, true}) ASSERT_NO_FATAL_FAILURE(check_linear(shape, threads, options, loops()));
    }
  }
}

TEST_P(LinearOnIsa, BlocksLongRowsOfAFewSamples) {
  ASSERT_NO_FATAL_FAILURE(check_linear({16, 4999, 9}, 2, true, loops()));
  ASSERT_NO_FATAL_FAILURE(check_linear({30, 2500, 25}, 2, false, loops()));
}

const auto kAllIsas = testing::Values(Isa::generic, Isa::avx2, Isa::avx512);
INSTANTIATE_TEST_SUITE_P(Cpu, GemmOnIsa, kAllIsas, name_of_isa);
INSTANTIATE_TEST_SUITE_P(Cpu, LinearOnIsa, kAllIsas, name_of_isa);

}  // namespace
}  // namespace trifold::cpu
