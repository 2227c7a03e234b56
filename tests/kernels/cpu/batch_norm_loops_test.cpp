// Every variant of the batch norm loops against plain double loops.
#include "kernels/cpu/simd/batch_norm_loops.h"

#include "kernels/cpu/loops_fixture.h"

TRIFOLD_TEST_TABLES(BatchNormLoops, batch_norm_loops)

namespace trifold::cpu {
namespace {

class BatchNormLoopsTest : public LoopsTest {
 protected:
  const BatchNormLoops& loops() const { return batch_norm_loops_of(GetParam()); }

  // Random bits, of which the paddings are set too: nobody may count them.
  std::vector<std::uint8_t> random_mask(const ChannelView& view) {
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(kSamples * mask_bytes(view)));
    for (std::uint8_t& byte : mask) byte = static_cast<std::uint8_t>(generator_());
    return mask;
  }
};

using Doubles = std::vector<double>;

TEST_P(BatchNormLoopsTest, StatisticsAddSumsAroundTheCenter) {
  for (const ChannelView& view : views()) {
    SCOPED_TRACE(text_of(view));
    const auto x = random(view, 2, 4);
    const auto center = random(view.channels, 2.5, 3.5);
    const auto channels = static_cast<std::size_t>(view.channels);
    Doubles sum(channels, 1.0), squares(channels, 2.0), expected_sum(channels, 1.0), expected_squares(channels, 2.0);
    for_each_element(view, [&](auto, auto c, auto, auto i) {
      const double difference = double{x[i]} - center[c];
      expected_sum[c] += difference;
      expected_squares[c] += difference * difference;
    });
    loops().statistics(
        {.view = view, .x = x.data(), .center = center.data(), .sum = sum.data(), .sum_squares = squares.data()},
        kRange);
    for (std::size_t c = 0; c < channels; ++c) {
      ASSERT_NEAR(sum[c], expected_sum[c], 1e-6 * static_cast<double>(view.pixels) + 1e-6) << c;
      ASSERT_NEAR(squares[c], expected_squares[c], 1e-6 * expected_squares[c] + 1e-6) << c;
    }
  }
}

TEST_P(BatchNormLoopsTest, CenterIsNearTheMean) {
  for (const ChannelView& view : views()) {
    SCOPED_TRACE(text_of(view));
    auto x = random(view);
    const auto offset = random(view.channels, -1000, 1000);
    for_each_element(view, [&](auto, auto c, auto, auto i) { x[i] += offset[c]; });
    std::vector<float> center(static_cast<std::size_t>(view.channels) + 1, -7.0f);
    loops().center({.view = view, .x = x.data(), .center = center.data()}, kRange);
    for (std::size_t c = 0; c < offset.size(); ++c) ASSERT_NEAR(center[c], offset[c], 1.001) << c;
    ASSERT_EQ(center.back(), -7.0f);
  }
}

TEST_P(BatchNormLoopsTest, CenterOfEqualValuesIsTheirValue) {
  for (const ChannelView& view : views()) {
    SCOPED_TRACE(text_of(view));
    auto x = random(view);
    const auto value = random(view.channels);
    for_each_element(view, [&](auto, auto c, auto, auto i) { x[i] = value[c]; });
    std::vector<float> center(value.size());
    loops().center({.view = view, .x = x.data(), .center = center.data()}, kRange);
    ASSERT_EQ(center, value);
  }
}

TEST_P(BatchNormLoopsTest, ApplyInEveryVariant) {
  for (const ChannelView& view : views()) {
    const auto x = random(view), residual = random(view);
    const auto scale = random(view.channels), shift = random(view.channels), scale2 = random(view.channels);
    const auto mean = random(view.channels);
    for (int residuals = 0; residuals < 3; ++residuals) {
      for (int relus = 0; relus < 3; ++relus) {
        SCOPED_TRACE(text_of(view) + " residual " + std::to_string(residuals) + " relu " + std::to_string(relus));
        auto y = untouched(view);
        std::vector<std::uint8_t> mask(static_cast<std::size_t>(kSamples * mask_bytes(view)), 0xa5);
        loops().apply({.view = view,
                       .x = x.data(),
                       .mean = mean.data(),
                       .scale = scale.data(),
                       .shift = shift.data(),
                       .residual = residuals > 0 ? residual.data() : nullptr,
                       .residual_scale = residuals > 1 ? scale2.data() : nullptr,
                       .relu = relus > 0,
                       .y = y.data(),
                       .mask = relus > 1 ? mask.data() : nullptr},
                      kRange);
        expect_sample_0_untouched(view, y);
        for (std::int64_t i = 0; i < mask_bytes(view); ++i) ASSERT_EQ(mask[static_cast<std::size_t>(i)], 0xa5);
        for_each_element(view, [&](auto n, auto c, auto p, auto i) {
          double expected = (double{x[i]} - mean[c]) * scale[c] + shift[c];
          if (residuals == 1) expected += residual[i];
          if (residuals == 2) expected += double{residual[i]} * scale2[c];
          if (relus > 0) expected = std::max(0.0, expected);
          ASSERT_NEAR(y[i], expected, 1e-6);
          if (relus > 1) {
            ASSERT_EQ(mask_bit(view, mask, n, static_cast<std::int64_t>(c), p), y[i] > 0);
          }
        });
      }
    }
  }
}

TEST_P(BatchNormLoopsTest, ApplyInPlaceOverTheResidual) {
  const ChannelView view = {5, 37, false};
  const auto x = random(view), residual = random(view);
  const auto mean = random(view.channels), scale = random(view.channels), shift = random(view.channels);
  auto y = residual;
  loops().apply({.view = view,
                 .x = x.data(),
                 .mean = mean.data(),
                 .scale = scale.data(),
                 .shift = shift.data(),
                 .residual = y.data(),
                 .y = y.data()},
                kRange);
  for_each_element(view, [&](auto, auto c, auto, auto i) {
    ASSERT_NEAR(y[i], (double{x[i]} - mean[c]) * scale[c] + shift[c] + residual[i], 1e-6);
  });
}

TEST_P(BatchNormLoopsTest, BackwardReduceInEveryVariant) {
  for (const ChannelView& view : views()) {
    const auto dy = random(view), dy2 = random(view), x = random(view), x2 = random(view);
    const auto scale = random(view.channels), shift = random(view.channels, -0.5, 0.5);
    const auto mean = random(view.channels), mean2 = random(view.channels);
    const auto mask = random_mask(view);
    const auto channels = static_cast<std::size_t>(view.channels);
    for (int variant = 0; variant < 24; ++variant) {
      const int gate = variant % 3;  // none, from x, bits
      const bool second = (variant / 3) % 2, with_x2 = (variant / 6) % 2, write = variant / 12;
      SCOPED_TRACE(text_of(view) + " variant " + std::to_string(variant));
      auto d_out = untouched(view);
      Doubles sum_d(channels, 1), sum_dx(channels, 2), sum_dx2(channels, 3);
      Doubles expected_d = sum_d, expected_dx = sum_dx, expected_dx2 = sum_dx2;
      loops().backward_reduce({.view = view,
                               .dy = dy.data(),
                               .dy2 = second ? dy2.data() : nullptr,
                               .x = x.data(),
                               .mean = mean.data(),
                               .gate = {.mask = gate == 2 ? mask.data() : nullptr,
                                        .scale = gate == 1 ? scale.data() : nullptr,
                                        .shift = gate == 1 ? shift.data() : nullptr},
                               .sum_d = sum_d.data(),
                               .sum_dx = sum_dx.data(),
                               .x2 = with_x2 ? x2.data() : nullptr,
                               .mean2 = with_x2 ? mean2.data() : nullptr,
                               .sum_dx2 = with_x2 ? sum_dx2.data() : nullptr,
                               .d = write ? d_out.data() : nullptr},
                              kRange);
      for_each_element(view, [&](auto n, auto c, auto p, auto i) {
        double d = double{dy[i]} + (second ? dy2[i] : 0.0f);
        if (gate == 1 && (double{x[i]} - mean[c]) * scale[c] + shift[c] <= 0) d = 0;
        if (gate == 2 && !mask_bit(view, mask, n, static_cast<std::int64_t>(c), p)) d = 0;
        expected_d[c] += d;
        expected_dx[c] += d * (double{x[i]} - mean[c]);
        if (with_x2) expected_dx2[c] += d * (double{x2[i]} - mean2[c]);
        if (write) {
          ASSERT_NEAR(d_out[i], d, 1e-6);
        }
      });
      if (write) expect_sample_0_untouched(view, d_out);
      const double tolerance = 1e-6 * static_cast<double>(view.pixels) + 2e-6;
      for (std::size_t c = 0; c < channels; ++c) {
        ASSERT_NEAR(sum_d[c], expected_d[c], tolerance);
        ASSERT_NEAR(sum_dx[c], expected_dx[c], tolerance);
        ASSERT_NEAR(sum_dx2[c], expected_dx2[c], tolerance);
      }
    }
  }
}

TEST_P(BatchNormLoopsTest, BackwardInputInEveryVariant) {
  for (const ChannelView& view : views()) {
    const auto d = random(view), x = random(view);
    const auto mean = random(view.channels);
    const auto p = random(view.channels), q = random(view.channels), r = random(view.channels);
    const auto scale = random(view.channels), shift = random(view.channels, -0.5, 0.5);
    const auto mask = random_mask(view);
    for (int gate = 0; gate < 3; ++gate) {
      SCOPED_TRACE(text_of(view) + " gate " + std::to_string(gate));
      auto dx = x;  // in place
      loops().backward_input({.view = view,
                              .d = d.data(),
                              .x = dx.data(),
                              .mean = mean.data(),
                              .gate = {.mask = gate == 2 ? mask.data() : nullptr,
                                       .scale = gate == 1 ? scale.data() : nullptr,
                                       .shift = gate == 1 ? shift.data() : nullptr},
                              .p = p.data(),
                              .q = q.data(),
                              .r = r.data(),
                              .dx = dx.data()},
                             kRange);
      for (std::int64_t i = 0; i < sample_elements(view); ++i) {
        ASSERT_EQ(dx[static_cast<std::size_t>(i)], x[static_cast<std::size_t>(i)]);
      }
      for_each_element(view, [&](auto n, auto c, auto pixel, auto i) {
        double gated = d[i];
        if (gate == 1 && (double{x[i]} - mean[c]) * scale[c] + shift[c] <= 0) gated = 0;
        if (gate == 2 && !mask_bit(view, mask, n, static_cast<std::int64_t>(c), pixel)) gated = 0;
        ASSERT_NEAR(dx[i], p[c] * gated + q[c] * (double{x[i]} - mean[c]) + r[c], 1e-6);
      });
    }
  }
}

TRIFOLD_TEST_EVERY_ISA(BatchNormLoopsTest);

}  // namespace
}  // namespace trifold::cpu
