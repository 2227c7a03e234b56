// FirstConv against plain loops in double, on every instruction set this machine has, over odd shapes; all outputs and
// scratch lie between guards that must survive.
#include "kernels/cpu/first_conv.h"

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/layout.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "kernels/cpu/guarded_array.h"
#include "kernels/cpu/isa_tables.h"

TRIFOLD_TEST_TABLES(FirstConvLoops, first_conv_loops)

namespace trifold::cpu {
namespace {

template <class Values>
double at(const Values& values, std::int64_t index) {
  return values[static_cast<std::size_t>(index)];
}

struct FirstConvOptions {
  bool bias = false;
  bool relu = false;
  bool statistics = false;
  bool accumulate = false;
};

// Calls body(n, o, row, column, index of y in its blocked layout) for every output.
template <class Body>
void for_each_output(const FirstConvShape& s, int lanes, Body&& body) {
  const Shape y_shape{s.batch, s.out, s.out_extent(0), s.out_extent(1)};
  const Layout blocked{.order = Order::channel_block, .block = lanes};
  std::int64_t index = 0;
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      for (std::int64_t row = 0; row < s.out_extent(0); ++row) {
        for (std::int64_t column = 0; column < s.out_extent(1); ++column) {
          body(n, o, row, column, offset_in(blocked, y_shape, index++));
        }
      }
    }
  }
}

// Calls body(index in x, index in w's first-layer layout) for every tap of an output that is not in the padding.
template <class Body>
void for_each_tap(const FirstConvShape& s, int lanes, std::int64_t n, std::int64_t o, std::int64_t row,
                  std::int64_t column, Body&& body) {
  for (std::int64_t r = 0; r < s.kernel[0]; ++r) {
    for (std::int64_t c = 0; c < s.kernel[1]; ++c) {
      const std::int64_t h = row * s.stride[0] - s.pad[0] + r * s.dilation[0];
      const std::int64_t w = column * s.stride[1] - s.pad[1] + c * s.dilation[1];
      if (h < 0 || h >= s.image[0] || w < 0 || w >= s.image[1]) continue;
      for (std::int64_t i = 0; i < s.channels; ++i) {
        body(((n * s.channels + i) * s.image[0] + h) * s.image[1] + w,
             (((o / lanes * s.kernel[0] + r) * s.kernel[1] + c) * s.channels + i) * lanes + o % lanes);
      }
    }
  }
}

void check(const FirstConvShape& s, int threads, const FirstConvOptions& options, const FirstConvLoops& loops) {
  const std::int64_t taps = s.channels * s.kernel[0] * s.kernel[1];
  const std::int64_t outputs = s.batch * s.out * s.out_extent(0) * s.out_extent(1);
  const std::string where =
      fmt::format("{}x{}x{}x{} -> {}, kernel {}x{} stride {}x{} pad {}x{} dilation {}x{}, threads {}", s.batch,
                  s.channels, s.image[0], s.image[1], s.out, s.kernel[0], s.kernel[1], s.stride[0], s.stride[1],
                  s.pad[0], s.pad[1], s.dilation[0], s.dilation[1], threads);
  ASSERT_TRUE(FirstConv::supports(s, loops)) << where;
  const auto x = random_floats(s.batch * s.channels * s.image[0] * s.image[1], 1);
  const auto w = random_floats(s.out * taps, 2);
  const auto bias = random_floats(s.out, 3);
  const auto center = random_floats(s.out, 4);
  const auto dy = random_floats(outputs, 5);
  const std::int64_t sums = options.statistics ? s.stat_groups() * s.out : 0;

  const FirstConv conv(s, threads, loops);
  GuardedArray<float> y(outputs), dw(s.out * taps, 0.25f), dbias(s.out, 0.25f);
  GuardedArray<double> stat_sum(sums), stat_sumsq(sums);
  auto forward_scratch = scratch_of(conv.forward_scratch_bytes());
  auto weights_scratch = scratch_of(conv.backward_weights_scratch_bytes());
  conv.forward({.x = x,
                .w = w,
                .bias = options.bias ? std::span<const float>(bias) : std::span<const float>(),
                .relu = options.relu,
                .y = y.span(),
                .stat_center = options.statistics ? std::span<const float>(center) : std::span<const float>(),
                .stat_sum = stat_sum.span(),
                .stat_sumsq = stat_sumsq.span()},
               forward_scratch.bytes());
  conv.backward_weights({.x = x,
                         .dy = dy,
                         .dw = dw.span(),
                         .dbias = options.bias ? dbias.span() : std::span<float>(),
                         .accumulate = options.accumulate},
                        weights_scratch.bytes());

  std::vector<double> expected_dw(w.size(), options.accumulate ? 0.25 : 0.0);
  std::vector<double> expected_dbias(bias.size(), options.accumulate || !options.bias ? 0.25 : 0.0);
  std::vector<double> expected_sum(static_cast<std::size_t>(sums)), expected_sumsq(expected_sum);
  const std::int64_t group = s.stat_group == 0 ? s.batch : s.stat_group;
  for_each_output(s, loops.lanes, [&](auto n, auto o, auto row, auto column, std::int64_t index) {
    double sum = options.bias ? at(bias, o) : 0.0;
    const double gradient = at(dy, index);
    for_each_tap(s, loops.lanes, n, o, row, column, [&](std::int64_t x_index, std::int64_t w_index) {
      sum += at(x, x_index) * at(w, w_index);
      expected_dw[static_cast<std::size_t>(w_index)] += at(x, x_index) * gradient;
    });
    if (options.relu) sum = std::max(sum, 0.0);
    ASSERT_NEAR(at(y.span(), index), sum, 1e-6 * (4 + std::sqrt(taps))) << "y of " << where;
    if (options.bias) expected_dbias[static_cast<std::size_t>(o)] += gradient;
    if (options.statistics) {
      const double difference = at(y.span(), index) - at(center, o);
      expected_sum[static_cast<std::size_t>(n / group * s.out + o)] += difference;
      expected_sumsq[static_cast<std::size_t>(n / group * s.out + o)] += difference * difference;
    }
  });
  if (testing::Test::HasFatalFailure()) return;

  const double tolerance = 1e-6 * (4 + std::sqrt(outputs / s.out));
  for (std::size_t i = 0; i < w.size(); ++i) {
    ASSERT_NEAR(dw.span()[i], expected_dw[i], tolerance) << "dw[" << i << "] of " << where;
  }
  for (std::size_t i = 0; i < bias.size(); ++i) {
    ASSERT_NEAR(dbias.span()[i], expected_dbias[i], tolerance) << "dbias of " << where;
  }
  for (std::size_t i = 0; i < expected_sum.size(); ++i) {
    ASSERT_NEAR(stat_sum.span()[i], expected_sum[i], 1e-6 * (expected_sumsq[i] + 10)) << "stat_sum of " << where;
    ASSERT_NEAR(stat_sumsq.span()[i], expected_sumsq[i], 1e-6 * (expected_sumsq[i] + 10)) << "stat_sumsq of " << where;
  }
  for (const GuardedArray<float>* buffer : {&y, &dw, &dbias, &forward_scratch, &weights_scratch}) {
    ASSERT_NO_FATAL_FAILURE(buffer->expect_intact(where));
  }
  for (const GuardedArray<double>* buffer : {&stat_sum, &stat_sumsq}) {
    ASSERT_NO_FATAL_FAILURE(buffer->expect_intact(where));
  }
}

class FirstConvOnIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > active_isa()) GTEST_SKIP() << "this machine has no " << isa_name(GetParam());
  }
  const FirstConvLoops& loops() const { return first_conv_loops_of(GetParam()); }
  std::int64_t lanes() const { return loops().lanes; }
};

TEST_P(FirstConvOnIsa, EqualsPlainLoopsForAllKernelsStridesAndPads) {
  for (std::int64_t kernel : {1, 2, 3, 5, 7, 11}) {
    for (std::int64_t stride : {1, 2, 3, 4}) {
      for (std::int64_t pad : {std::int64_t{0}, kernel / 2, kernel}) {
        ASSERT_NO_FATAL_FAILURE(check({.batch = 2,
                                       .channels = 3,
                                       .image = {13, 17},
                                       .out = 2 * lanes(),
                                       .kernel = {kernel, kernel},
                                       .stride = {stride, stride},
                                       .pad = {pad, pad}},
                                      2, {.bias = true}, loops()));
      }
    }
  }
}

TEST_P(FirstConvOnIsa, TakesDifferentHeightsAndWidths) {
  ASSERT_NO_FATAL_FAILURE(check({.batch = 3,
                                 .channels = 1,
                                 .image = {11, 30},
                                 .out = lanes(),
                                 .kernel = {3, 5},
                                 .stride = {2, 1},
                                 .pad = {0, 2},
                                 .dilation = {1, 3}},
                                2, {}, loops()));
  ASSERT_NO_FATAL_FAILURE(check({.batch = 1,
                                 .channels = 5,
                                 .image = {20, 9},
                                 .out = 3 * lanes(),
                                 .kernel = {4, 2},
                                 .stride = {1, 3},
                                 .pad = {2, 1},
                                 .dilation = {2, 2}},
                                3, {.relu = true}, loops()));
}

TEST_P(FirstConvOnIsa, TakesAnyNumberOfChannelsAndOutputVectors) {
  for (std::int64_t channels : {1, 2, 3, 4, 7}) {
    for (std::int64_t vectors : {1, 2, 3, 4, 5, 7}) {
      ASSERT_NO_FATAL_FAILURE(check({.batch = 2,
                                     .channels = channels,
                                     .image = {6, 10},
                                     .out = vectors * lanes(),
                                     .kernel = {3, 3},
                                     .pad = {1, 1}},
                                    2, {.bias = true, .relu = true, .accumulate = true}, loops()));
    }
  }
}

TEST_P(FirstConvOnIsa, TakesAnyWidth) {
  for (std::int64_t width = 1; width <= 20; ++width) {
    for (std::int64_t vectors : {1, 2}) {
      ASSERT_NO_FATAL_FAILURE(check(
          {.batch = 1, .channels = 1, .image = {3, width}, .out = vectors * lanes(), .kernel = {3, 3}, .pad = {1, 1}},
          1, {}, loops()));
    }
  }
}

TEST_P(FirstConvOnIsa, SumsStatisticsOfEachGroupOfSamples) {
  for (std::int64_t stat_group : {0, 1, 2, 3}) {
    for (int threads : {1, 2, 5}) {
      ASSERT_NO_FATAL_FAILURE(check({.batch = 7,
                                     .channels = 3,
                                     .image = {9, 11},
                                     .out = 3 * lanes(),
                                     .kernel = {3, 3},
                                     .pad = {1, 1},
                                     .stat_group = stat_group},
                                    threads, {.bias = true, .statistics = true}, loops()));
    }
  }
}

TEST_P(FirstConvOnIsa, CutsLargeImagesIntoBands) {
  ASSERT_NO_FATAL_FAILURE(check({.batch = 2,
                                 .channels = 3,
                                 .image = {70, 224},
                                 .out = 2 * lanes(),
                                 .kernel = {7, 7},
                                 .stride = {2, 2},
                                 .pad = {3, 3}},
                                3, {.relu = true, .statistics = true}, loops()));
}

TEST_P(FirstConvOnIsa, RefusesOutputsThatDoNotFillVectors) {
  EXPECT_FALSE(FirstConv::supports({.batch = 1, .channels = 3, .image = {8, 8}, .out = lanes() + 4}, loops()));
  EXPECT_FALSE(
      FirstConv::supports({.batch = 1, .channels = 3, .image = {2, 8}, .out = lanes(), .kernel = {3, 3}}, loops()));
}

INSTANTIATE_TEST_SUITE_P(Cpu, FirstConvOnIsa, testing::Values(Isa::generic, Isa::avx2, Isa::avx512), name_of_isa);

}  // namespace
}  // namespace trifold::cpu
