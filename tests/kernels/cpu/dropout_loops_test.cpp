// Dropout draws exactly the numbers of random_block, whatever the layout.
#include "kernels/cpu/simd/dropout_loops.h"

#include <fmt/format.h>

#include "core/philox.h"
#include "kernels/cpu/loops_fixture.h"

TRIFOLD_TEST_TABLES(DropoutLoops, dropout_loops)

namespace trifold::cpu {
namespace {

// A sample index past 32 bits, and a seed with all parts set.
constexpr DropoutStream kStream = {
    .seed = 0x0123456789abcdefull, .layer = 9, .first_sample = 0x300000000ull, .probability = 0.3f};

// The tensor as a part of a larger one: none, one that begins at a block of four numbers, one that does not.
std::vector<DropoutStream> parts(const ChannelView& view) {
  const auto channels = static_cast<std::uint32_t>(view.channels);
  std::vector<DropoutStream> streams(3, kStream);
  streams[1].first_channel = 16;
  streams[1].first_pixel = 4;
  streams[1].whole_channels = (channels + 16 + 3) / 4 * 4;
  streams[2].first_channel = 7;
  streams[2].first_pixel = view.pixels > 1 ? 3 : 0;
  streams[2].whole_channels = channels + 10;
  return streams;
}

float expected_factor(std::int64_t n, std::int64_t number) {
  const PhiloxBlock block =
      random_block(kStream.seed, Purpose::dropout, kStream.layer, kStream.first_sample + static_cast<std::uint64_t>(n),
                   static_cast<std::uint32_t>(number / 4));
  const float uniform = uniform_from_bits(block[static_cast<std::size_t>(number % 4)]);
  return uniform >= kStream.probability ? 1.0f / (1.0f - kStream.probability) : 0.0f;
}

class DropoutLoopsTest : public LoopsTest {
 protected:
  const DropoutLoops& loops() const { return dropout_loops_of(GetParam()); }
};

TEST_P(DropoutLoopsTest, ElementsFollowPhiloxInEveryLayout) {
  for (const ChannelView& view : views()) {
    const auto x = random(view), dy = random(view);
    for (const DropoutStream& stream : parts(view)) {
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(text_of(view) + (relu ? " relu" : "") + fmt::format(" from channel {}", stream.first_channel));
        auto y = untouched(view), dx = untouched(view);
        loops().dropout({.view = view, .stream = stream, .from = x.data(), .to = y.data(), .relu = relu}, kRange);
        loops().dropout(
            {.view = view, .stream = stream, .from = dy.data(), .to = dx.data(), .gate = relu ? y.data() : nullptr},
            kRange);
        expect_sample_0_untouched(view, y);
        expect_sample_0_untouched(view, dx);
        const std::int64_t whole_channels = stream.whole_channels > 0 ? stream.whole_channels : view.channels;
        for_each_element(view, [&](auto n, auto c, auto p, auto i) {
          const std::int64_t number = (stream.first_pixel + static_cast<std::int64_t>(p)) * whole_channels +
                                      stream.first_channel + static_cast<std::int64_t>(c);
          const float factor = expected_factor(n, number);
          ASSERT_EQ(y[i], relu ? std::max(0.0f, x[i] * factor) : x[i] * factor) << c << " " << p;
          ASSERT_EQ(dx[i], relu && y[i] <= 0 ? 0.0f : dy[i] * factor);
        });
      }
    }
  }
}

TEST_P(DropoutLoopsTest, ChannelsFollowPhilox) {
  for (const ChannelView& view : views()) {
    const auto x = random(view), dy = random(view);
    std::vector<float> factors(static_cast<std::size_t>(kSamples * view.channels), kUntouched);
    loops().channel_factors({.channels = view.channels, .stream = kStream, .factors = factors.data()}, kRange);
    expect_sample_0_untouched({view.channels, 1, false}, factors);
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(text_of(view) + (relu ? " relu" : ""));
      auto y = untouched(view), dx = untouched(view);
      loops().channel_dropout({.view = view, .factors = factors.data(), .from = x.data(), .to = y.data(), .relu = relu},
                              kRange);
      loops().channel_dropout({.view = view,
                               .factors = factors.data(),
                               .from = dy.data(),
                               .to = dx.data(),
                               .gate = relu ? y.data() : nullptr},
                              kRange);
      expect_sample_0_untouched(view, y);
      for_each_element(view, [&](auto n, auto c, auto, auto i) {
        const float factor = expected_factor(n, static_cast<std::int64_t>(c));
        ASSERT_EQ(factors[static_cast<std::size_t>(n * view.channels) + c], factor);
        ASSERT_EQ(y[i], relu ? std::max(0.0f, x[i] * factor) : x[i] * factor);
        ASSERT_EQ(dx[i], relu && y[i] <= 0 ? 0.0f : dy[i] * factor);
      });
    }
  }
}

TEST_P(DropoutLoopsTest, ChannelsOfAPartFollowPhilox) {
  for (const ChannelView& view : views())
    for (const DropoutStream& stream : parts(view)) {
      SCOPED_TRACE(text_of(view) + fmt::format(" from channel {}", stream.first_channel));
      std::vector<float> factors(static_cast<std::size_t>(kSamples * view.channels), kUntouched);
      loops().channel_factors({.channels = view.channels, .stream = stream, .factors = factors.data()}, kRange);
      expect_sample_0_untouched({view.channels, 1, false}, factors);
      for_each_element({view.channels, 1, false}, [&](auto n, auto c, auto, auto i) {
        ASSERT_EQ(factors[i], expected_factor(n, stream.first_channel + static_cast<std::int64_t>(c)));
      });
    }
}

TRIFOLD_TEST_EVERY_ISA(DropoutLoopsTest);

}  // namespace
}  // namespace trifold::cpu
