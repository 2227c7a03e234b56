// Reorders and channel copies move every element to its place and touch no other.
#include "kernels/cpu/simd/layout_loops.h"

#include "kernels/cpu/loops_fixture.h"

TRIFOLD_TEST_TABLES(LayoutLoops, layout_loops)

namespace trifold::cpu {
namespace {

class LayoutLoopsTest : public LoopsTest {
 protected:
  const LayoutLoops& loops() const { return layout_loops_of(GetParam()); }
};

TEST_P(LayoutLoopsTest, ReorderBothWays) {
  for (const std::int64_t pixels : {1, 3, 8, 16, 49, 67}) {
    SCOPED_TRACE(pixels);
    const ChannelView blocked = {3L * lanes(), pixels, true}, plain = {3L * lanes(), pixels, false};
    const auto x = random(plain);
    auto y = untouched(blocked), back = untouched(plain);
    loops().to_blocked({.channels = plain.channels, .pixels = pixels, .from = x.data(), .to = y.data()}, kRange);
    loops().to_plain({.channels = plain.channels, .pixels = pixels, .from = y.data(), .to = back.data()}, kRange);
    expect_sample_0_untouched(blocked, y);
    expect_sample_0_untouched(plain, back);
    for_each_element(plain, [&](auto n, auto c, auto p, auto i) {
      ASSERT_EQ(y[static_cast<std::size_t>(offset_of(blocked, n, static_cast<std::int64_t>(c), p))], x[i]);
      ASSERT_EQ(back[i], x[i]);
    });
  }
}

TEST_P(LayoutLoopsTest, CopyChannelsIntoAndOutOfABiggerTensor) {
  for (const bool blocked : {false, true}) {
    const std::int64_t unit = blocked ? lanes() : 3;
    const ChannelView part = {2 * unit, 7, blocked}, whole = {5 * unit, 7, blocked};
    const auto x = random(part);
    auto y = untouched(whole), back = untouched(part);
    loops().copy_channels({.pixels = 7,
                           .channels = part.channels,
                           .from = x.data(),
                           .from_channels = part.channels,
                           .to = y.data(),
                           .to_channels = whole.channels,
                           .first_to = unit},
                          kRange);
    loops().copy_channels({.pixels = 7,
                           .channels = part.channels,
                           .from = y.data(),
                           .from_channels = whole.channels,
                           .first_from = unit,
                           .to = back.data(),
                           .to_channels = part.channels},
                          kRange);
    expect_sample_0_untouched(whole, y);
    for_each_element(whole, [&](auto n, auto c, auto p, auto i) {
      const std::int64_t from = static_cast<std::int64_t>(c) - unit;
      const bool inside = from >= 0 && from < part.channels;
      ASSERT_EQ(y[i], inside ? x[static_cast<std::size_t>(offset_of(part, n, from, p))] : kUntouched);
    });
    for_each_element(part, [&](auto, auto, auto, auto i) { ASSERT_EQ(back[i], x[i]); });
  }
}

TRIFOLD_TEST_EVERY_ISA(LayoutLoopsTest);

}  // namespace
}  // namespace trifold::cpu
