// Pooling over windows of an image and over the whole image, over a range of samples on the calling thread. Tensors are
// given whole; x and dx are [N, C, H, W], y, dy and argmax [N, C, H', W'], all in one layout.
#pragma once

#include <cstdint>

#include "core/parallel.h"
#include "kernels/cpu/simd/channel_view.h"
#include "kernels/ops/pooling.h"

namespace trifold::cpu {

// Each window holds at least one pixel of the image: pad < kernel, and out extents to match.
struct PoolGeometry {
  std::int64_t channels = 0;
  bool blocked = false;
  std::int64_t in_height = 0, in_width = 0;
  std::int64_t out_height = 0, out_width = 0;
  std::int64_t kernel_height = 2, kernel_width = 2;
  std::int64_t stride_height = 2, stride_width = 2;
  std::int64_t pad_height = 0, pad_width = 0;
};

struct MaxPoolForwardArgs {
  PoolGeometry geometry;
  const float* x = nullptr;
  bool relu_input = false;  // as if x were max(0, x): y = max(0, largest of the window)
  float* y = nullptr;
  std::uint8_t* argmax = nullptr;  // or none: row * kernel_width + column of the first maximum; needs an area <= 255
};

struct MaxPoolBackwardArgs {
  PoolGeometry geometry;
  const float* dy = nullptr;
  const std::uint8_t* argmax = nullptr;
  const float* y = nullptr;  // or none: nothing passes where y <= 0 (relu_input, or a relu after the pool)
  float* dx = nullptr;       // overwritten
};

struct AvgPoolForwardArgs {
  PoolGeometry geometry;
  PoolDivisor divisor;
  const float* x = nullptr;
  float* y = nullptr;
};

struct AvgPoolBackwardArgs {
  PoolGeometry geometry;
  PoolDivisor divisor;
  const float* dy = nullptr;
  float* dx = nullptr;  // overwritten
};

// y = sum of x / whole_pixels, which are those of view or of images that x has some rows of.
struct GlobalAvgPoolForwardArgs {
  ChannelView view;
  std::int64_t whole_pixels = 0;
  const float* x = nullptr;  // [N, C, P]
  float* y = nullptr;        // [N, C]
};

struct GlobalAvgPoolBackwardArgs {
  ChannelView view;
  std::int64_t whole_pixels = 0;
  const float* dy = nullptr;  // [N, C]
  float* dx = nullptr;        // [N, C, P], overwritten
};

struct PoolingLoops {
  void (*max_pool_forward)(const MaxPoolForwardArgs& args, Range samples);
  void (*max_pool_backward)(const MaxPoolBackwardArgs& args, Range samples);
  void (*avg_pool_forward)(const AvgPoolForwardArgs& args, Range samples);
  void (*avg_pool_backward)(const AvgPoolBackwardArgs& args, Range samples);
  void (*global_avg_pool_forward)(const GlobalAvgPoolForwardArgs& args, Range samples);
  void (*global_avg_pool_backward)(const GlobalAvgPoolBackwardArgs& args, Range samples);
};

const PoolingLoops& pooling_loops();

}  // namespace trifold::cpu
