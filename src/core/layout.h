// How the elements of a tensor lie in memory. Activations are plain (row-major, [N, C, H, W]) or blocked by channels
// ([N, C/8, H, W, 8c]; a block of all channels is NHWC); blocked only where the block divides the channels, so that no
// layout has padding and every layout of a tensor has the same number of elements. Weights have layouts of their own to
// match.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/shape.h"

namespace trifold {

enum class Order : std::uint8_t {
  plain,           // row-major
  channel_block,   // activations: [N, C/b, H, W, b]
  conv_block,      // weights OIhw: [O/b, I/b, R, S, b of I, b of O]
  conv_first,      // weights OIhw of a first layer, whose input is plain: [O/b, R, S, I, b of O]
  conv_depthwise,  // weights OIhw with I = 1, one group a channel: [O/b, R, S, b of O]
  conv_last,       // weights OIhw: [O, R, S, I]
  column_block,    // weights [O, C*H*W] of a linear layer that reads a blocked [N, C, H, W]: columns in the order of it
};

struct Layout {
  Order order = Order::plain;
  int block = 0;            // 8 or 16; 0 for plain
  std::int64_t pixels = 1;  // column_block only: H*W of the blocked input

  bool operator==(const Layout&) const = default;
  bool plain() const { return order == Order::plain; }
};

std::string to_string(const Layout& layout);

// Where the element with row-major index `index` of `shape` lies in `layout`.
std::int64_t offset_in(const Layout& layout, const Shape& shape, std::int64_t index);

// Between row-major and `layout`, for files and tests (steps use the backend's reorder kernel).
void to_layout(std::span<const float> plain, const Shape& shape, const Layout& layout, std::span<float> out);
void to_plain(std::span<const float> in, const Shape& shape, const Layout& layout, std::span<float> plain);

}  // namespace trifold
