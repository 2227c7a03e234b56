// Pooling against windows walked tap by tap, with ties, odd sizes, gaps and padding.
#include "kernels/cpu/simd/pooling_loops.h"

#include <array>
#include <cmath>

#include "kernels/cpu/loops_fixture.h"

TRIFOLD_TEST_TABLES(PoolingLoops, pooling_loops)

namespace trifold::cpu {
namespace {

class PoolingLoopsTest : public LoopsTest {
 protected:
  const PoolingLoops& loops() const { return pooling_loops_of(GetParam()); }

  // The two quick cases with even and odd images, and others: overlapping, gaps between windows, oblong, wide padding.
  std::vector<PoolGeometry> geometries() const {
    std::vector<PoolGeometry> all;
    for (const bool blocked : {false, true}) {
      const auto add = [&](std::array<std::int64_t, 2> image, std::array<std::int64_t, 2> kernel,
                           std::array<std::int64_t, 2> stride, std::array<std::int64_t, 2> pad) {
        PoolGeometry g{.channels = blocked ? 2L * lanes() : 3,
                       .blocked = blocked,
                       .in_height = image[0],
                       .in_width = image[1],
                       .kernel_height = kernel[0],
                       .kernel_width = kernel[1],
                       .stride_height = stride[0],
                       .stride_width = stride[1],
                       .pad_height = pad[0],
                       .pad_width = pad[1]};
        g.out_height = (image[0] + 2 * pad[0] - kernel[0]) / stride[0] + 1;
        g.out_width = (image[1] + 2 * pad[1] - kernel[1]) / stride[1] + 1;
        all.push_back(g);
      };
      add({8, 6}, {2, 2}, {2, 2}, {0, 0});
      add({7, 9}, {2, 2}, {2, 2}, {0, 0});
      add({8, 12}, {3, 3}, {2, 2}, {1, 1});
      add({7, 5}, {3, 3}, {2, 2}, {1, 1});
      add({1, 2}, {3, 3}, {2, 2}, {1, 1});
      add({9, 8}, {3, 3}, {2, 2}, {0, 0});
      add({6, 7}, {3, 3}, {1, 1}, {1, 1});
      add({9, 9}, {2, 3}, {3, 4}, {1, 0});
      add({10, 11}, {5, 4}, {2, 3}, {2, 3});
      add({9, 8}, {1, 1}, {2, 2}, {0, 0});
    }
    return all;
  }

  static ChannelView in_view(const PoolGeometry& g) { return {g.channels, g.in_height * g.in_width, g.blocked}; }
  static ChannelView out_view(const PoolGeometry& g) { return {g.channels, g.out_height * g.out_width, g.blocked}; }
  static std::string text(const PoolGeometry& g) {
    return std::to_string(g.in_height) + "x" + std::to_string(g.in_width) + " kernel " +
           std::to_string(g.kernel_height) + "x" + std::to_string(g.kernel_width) + " stride " +
           std::to_string(g.stride_height) + (g.blocked ? " blocked" : " plain");
  }

  // body(tap, index in x) for the taps of an output pixel that lie in the image, in order.
  template <class Body>
  void for_each_tap(const PoolGeometry& g, std::int64_t n, std::size_t c, std::int64_t out_pixel, Body body) const {
    const std::int64_t top = out_pixel / g.out_width * g.stride_height - g.pad_height;
    const std::int64_t left = out_pixel % g.out_width * g.stride_width - g.pad_width;
    for (std::int64_t r = 0; r < g.kernel_height; ++r) {
      for (std::int64_t s = 0; s < g.kernel_width; ++s) {
        const std::int64_t h = top + r, w = left + s;
        if (h < 0 || w < 0 || h >= g.in_height || w >= g.in_width) continue;
        body(r * g.kernel_width + s,
             static_cast<std::size_t>(offset_of(in_view(g), n, static_cast<std::int64_t>(c), h * g.in_width + w)));
      }
    }
  }
};

TEST_P(PoolingLoopsTest, MaxPoolForwardAndBackward) {
  for (const PoolGeometry& g : geometries()) {
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(text(g) + (relu ? " relu" : ""));
      auto x = random(in_view(g));
      for (float& value : x) value = std::round(value * 3) / 3;  // many ties: the first maximum counts
      const auto dy = random(out_view(g));
      auto y = untouched(out_view(g)), y_only = y;
      std::vector<std::uint8_t> argmax(y.size(), 251);
      loops().max_pool_forward(
          {.geometry = g, .x = x.data(), .relu_input = relu, .y = y.data(), .argmax = argmax.data()}, kRange);
      loops().max_pool_forward({.geometry = g, .x = x.data(), .relu_input = relu, .y = y_only.data()}, kRange);
      EXPECT_EQ(y, y_only);
      expect_sample_0_untouched(out_view(g), y);
      std::vector<double> expected_dx(x.size(), 0.0);
      for_each_element(out_view(g), [&](auto n, auto c, auto p, auto i) {
        double best = -1e30;
        std::int64_t best_tap = -1;
        std::size_t best_at = 0;
        for_each_tap(g, n, c, p, [&](std::int64_t tap, std::size_t at) {
          if (x[at] > best) {
            best = x[at];
            best_tap = tap;
            best_at = at;
          }
        });
        ASSERT_EQ(argmax[i], best_tap);
        ASSERT_EQ(y[i], relu ? std::max(0.0, best) : best);
        if (!relu || best > 0) expected_dx[best_at] += dy[i];
      });
      auto dx = untouched(in_view(g));
      loops().max_pool_backward(
          {.geometry = g, .dy = dy.data(), .argmax = argmax.data(), .y = relu ? y.data() : nullptr, .dx = dx.data()},
          kRange);
      expect_sample_0_untouched(in_view(g), dx);
      for_each_element(in_view(g), [&](auto, auto, auto, auto i) { ASSERT_NEAR(dx[i], expected_dx[i], 1e-6) << i; });
    }
  }
}

// Padding never wins, even against the lowest floats.
TEST_P(PoolingLoopsTest, MaxPoolOfMinusInfinityStaysInTheImage) {
  const PoolGeometry g{.channels = lanes(),
                       .blocked = true,
                       .in_height = 3,
                       .in_width = 3,
                       .out_height = 2,
                       .out_width = 2,
                       .kernel_height = 3,
                       .kernel_width = 3,
                       .pad_height = 1,
                       .pad_width = 1};
  const std::vector<float> x(static_cast<std::size_t>(9 * lanes()), -INFINITY);
  std::vector<float> y(static_cast<std::size_t>(4 * lanes()));
  std::vector<std::uint8_t> argmax(y.size());
  loops().max_pool_forward({.geometry = g, .x = x.data(), .y = y.data(), .argmax = argmax.data()}, {0, 1});
  const int first_inside[] = {4, 3, 1, 0};
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], -INFINITY);
    EXPECT_EQ(argmax[i], first_inside[i / static_cast<std::size_t>(lanes())]);
  }
}

TEST_P(PoolingLoopsTest, AvgPoolForwardAndBackward) {
  for (const PoolGeometry& g : geometries()) {
    for (const bool count_pad : {false, true}) {
      SCOPED_TRACE(text(g) + (count_pad ? " count pad" : ""));
      const auto x = random(in_view(g)), dy = random(out_view(g));
      auto y = untouched(out_view(g));
      auto dx = untouched(in_view(g));
      loops().avg_pool_forward({.geometry = g, .divisor = {count_pad}, .x = x.data(), .y = y.data()}, kRange);
      loops().avg_pool_backward({.geometry = g, .divisor = {count_pad}, .dy = dy.data(), .dx = dx.data()}, kRange);
      expect_sample_0_untouched(out_view(g), y);
      expect_sample_0_untouched(in_view(g), dx);
      std::vector<double> expected_dx(x.size(), 0.0);
      for_each_element(out_view(g), [&](auto n, auto c, auto p, auto i) {
        double total = 0, count = 0;
        for_each_tap(g, n, c, p, [&](std::int64_t, std::size_t at) {
          total += x[at];
          count += 1;
        });
        if (count_pad) count = static_cast<double>(g.kernel_height * g.kernel_width);
        ASSERT_NEAR(y[i], total / count, 1e-6);
        for_each_tap(g, n, c, p, [&](std::int64_t, std::size_t at) { expected_dx[at] += dy[i] / count; });
      });
      for_each_element(in_view(g), [&](auto, auto, auto, auto i) { ASSERT_NEAR(dx[i], expected_dx[i], 1e-6) << i; });
    }
  }
}

TEST_P(PoolingLoopsTest, GlobalAvgPoolForwardAndBackward) {
  for (const ChannelView& view : views())
    for (const std::int64_t whole : {view.pixels, 2 * view.pixels + 1}) {  // the latter: of images it has a part of
      SCOPED_TRACE(text_of(view));
      const ChannelView rows = {view.channels, 1, false};
      const auto x = random(view), dy = random(rows);
      auto y = untouched(rows), dx = untouched(view);
      loops().global_avg_pool_forward({.view = view, .whole_pixels = whole, .x = x.data(), .y = y.data()}, kRange);
      loops().global_avg_pool_backward({.view = view, .whole_pixels = whole, .dy = dy.data(), .dx = dx.data()}, kRange);
      expect_sample_0_untouched(rows, y);
      expect_sample_0_untouched(view, dx);
      std::vector<double> expected(y.size(), 0.0);
      const double pixels = static_cast<double>(whole);
      for_each_element(view, [&](auto n, auto c, auto, auto i) {
        const std::size_t row = static_cast<std::size_t>(n * view.channels) + c;
        expected[row] += x[i] / pixels;
        ASSERT_NEAR(dx[i], dy[row] / pixels, 1e-7);
      });
      for_each_element(rows, [&](auto, auto, auto, auto i) { ASSERT_NEAR(y[i], expected[i], 1e-6); });
    }
}

TRIFOLD_TEST_EVERY_ISA(PoolingLoopsTest);

}  // namespace
}  // namespace trifold::cpu
