#include "core/layout.h"

#include <fmt/format.h>

#include "core/error.h"

namespace trifold {

std::string to_string(const Layout& layout) {
  switch (layout.order) {
    case Order::plain:
      return "plain";
    case Order::channel_block:
      return fmt::format("nChw{}c", layout.block);
    case Order::conv_block:
      return fmt::format("OIhw{0}i{0}o", layout.block);
    case Order::conv_first:
      return fmt::format("Ohwi{}o", layout.block);
    case Order::conv_depthwise:
      return fmt::format("Goihw{}g", layout.block);
    case Order::conv_last:
      return "Ohwi";
    case Order::column_block:
      return fmt::format("oIhw{}i", layout.block);
  }
  return "?";
}

std::int64_t offset_in(const Layout& layout, const Shape& shape, std::int64_t index) {
  const std::int64_t b = layout.block;
  switch (layout.order) {
    case Order::plain:
      return index;
    case Order::channel_block: {
      const std::int64_t pixels = shape.pixels();
      const std::int64_t channels = shape.channels();
      const std::int64_t pixel = index % pixels;
      const std::int64_t channel = index / pixels % channels;
      const std::int64_t sample = index / pixels / channels;
      return ((sample * (channels / b) + channel / b) * pixels + pixel) * b + channel % b;
    }
    case Order::column_block: {
      const std::int64_t columns = shape[1];
      const std::int64_t row = index / columns;
      const std::int64_t column = index % columns;
      const std::int64_t channel = column / layout.pixels;
      const std::int64_t pixel = column % layout.pixels;
      return row * columns + (channel / b * layout.pixels + pixel) * b + channel % b;
    }
    case Order::conv_block:
    case Order::conv_first:
    case Order::conv_depthwise:
    case Order::conv_last:
      break;
  }
  const std::int64_t in = shape[1];
  const std::int64_t taps = shape[2] * shape[3];
  const std::int64_t tap = index % taps;
  const std::int64_t i = index / taps % in;
  const std::int64_t o = index / taps / in;
  if (layout.order == Order::conv_last) return (o * taps + tap) * in + i;
  if (layout.order == Order::conv_block) return (((o / b * (in / b) + i / b) * taps + tap) * b + i % b) * b + o % b;
  return ((o / b * taps + tap) * in + i) * b + o % b;  // conv_first, and conv_depthwise where in = 1
}

void to_layout(std::span<const float> plain, const Shape& shape, const Layout& layout, std::span<float> out) {
  TRIFOLD_CHECK(plain.size() == out.size(), "layouts of one tensor have the same size");
  for (std::size_t i = 0; i < plain.size(); ++i)
    out[static_cast<std::size_t>(offset_in(layout, shape, static_cast<std::int64_t>(i)))] = plain[i];
}

void to_plain(std::span<const float> in, const Shape& shape, const Layout& layout, std::span<float> plain) {
  TRIFOLD_CHECK(plain.size() == in.size(), "layouts of one tensor have the same size");
  for (std::size_t i = 0; i < plain.size(); ++i)
    plain[i] = in[static_cast<std::size_t>(offset_in(layout, shape, static_cast<std::int64_t>(i)))];
}

}  // namespace trifold
