// Sums, masks and channel sums against plain loops.
#include "kernels/cpu/simd/element_loops.h"

#include "kernels/cpu/loops_fixture.h"

TRIFOLD_TEST_TABLES(ElementLoops, element_loops)

namespace trifold::cpu {
namespace {

class ElementLoopsTest : public LoopsTest {
 protected:
  const ElementLoops& loops() const { return element_loops_of(GetParam()); }
};

TEST_P(ElementLoopsTest, AddWithReluAndMask) {
  for (const ChannelView& view : views()) {
    const auto a = random(view), b = random(view), dy = random(view);
    for (int relu = 0; relu < 3; ++relu) {  // none, relu, relu with mask
      SCOPED_TRACE(text_of(view) + " relu " + std::to_string(relu));
      auto y = untouched(view), dx = untouched(view);
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(kSamples * mask_bytes(view)), 0x5a);
      loops().add({.view = view,
                   .a = a.data(),
                   .b = b.data(),
                   .relu = relu > 0,
                   .y = y.data(),
                   .mask = relu > 1 ? mask.data() : nullptr},
                  kRange);
      if (relu > 1) {
        loops().mask_backward({.view = view, .dy = dy.data(), .mask = mask.data(), .dx = dx.data()}, kRange);
      }
      expect_sample_0_untouched(view, y);
      expect_sample_0_untouched(view, dx);
      for_each_element(view, [&](auto n, auto c, auto p, auto i) {
        ASSERT_EQ(y[i], relu > 0 ? std::max(0.0f, a[i] + b[i]) : a[i] + b[i]);
        if (relu > 1) {
          ASSERT_EQ(mask_bit(view, mask, n, static_cast<std::int64_t>(c), p), y[i] > 0);
          ASSERT_EQ(dx[i], y[i] > 0 ? dy[i] : 0.0f);
        }
      });
    }
  }
}

TEST_P(ElementLoopsTest, BiasAddAndChannelSum) {
  for (const ChannelView& view : views()) {
    SCOPED_TRACE(text_of(view));
    const auto x = random(view), bias = random(view.channels);
    auto y = untouched(view);
    std::vector<double> sum(bias.size(), 1.0), expected(bias.size(), 1.0);
    loops().bias_add({.view = view, .x = x.data(), .bias = bias.data(), .y = y.data()}, kRange);
    loops().channel_sum({.view = view, .x = x.data(), .sum = sum.data()}, kRange);
    expect_sample_0_untouched(view, y);
    for_each_element(view, [&](auto, auto c, auto, auto i) {
      ASSERT_EQ(y[i], x[i] + bias[c]);
      expected[c] += x[i];
    });
    for (std::size_t c = 0; c < sum.size(); ++c) {
      ASSERT_NEAR(sum[c], expected[c], 1e-6 * static_cast<double>(view.pixels) + 1e-6);
    }
  }
}

TEST_P(ElementLoopsTest, AddInPlaceAndScale) {
  const auto x = random(std::int64_t{75}), before = random(std::int64_t{75});
  auto y = before;
  loops().add_in_place(x.data(), y.data(), {2, 74});
  auto z = before;
  loops().scale(x.data(), 3.0f, z.data(), {2, 74});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool inside = i >= 2 && i < 74;
    ASSERT_EQ(y[i], inside ? before[i] + x[i] : before[i]);
    ASSERT_EQ(z[i], inside ? x[i] * 3.0f : before[i]);
  }
}

TRIFOLD_TEST_EVERY_ISA(ElementLoopsTest);

}  // namespace
}  // namespace trifold::cpu
