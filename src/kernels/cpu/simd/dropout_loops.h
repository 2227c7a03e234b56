// Dropout of elements and of channels, over a range of samples on the calling thread. What is dropped depends only on
// DropoutStream and the sample (Philox), so backward draws it again. Results may be written over any input.
#pragma once

#include <cstdint>

#include "core/parallel.h"
#include "kernels/cpu/simd/channel_view.h"

namespace trifold::cpu {

// The random numbers of sample n of the tensor are those of (seed, Purpose::dropout, layer, first_sample + n).
struct DropoutStream {
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
  std::uint64_t first_sample = 0;
  float probability = 0.5f;  // of being dropped, < 1; what is kept is multiplied by 1 / (1 - probability)
  // Of a tensor that is part of a whole: where it begins in it.
  std::uint32_t first_channel = 0;
  std::uint32_t first_pixel = 0;
  std::uint32_t whole_channels = 0;  // 0: the tensor has them all
};

// Forward: y = dropout(x), with relu max(0, .). Backward: from dy to dx, with `gate` the forward's y: 0 where y <= 0.
// Element e = pixel * C + channel of the whole tensor uses number e % 4 of block e / 4, in every layout.
struct ElementDropoutArgs {
  ChannelView view;
  DropoutStream stream;
  const float* from = nullptr;  // x or dy
  float* to = nullptr;          // y or dx
  bool relu = false;            // forward
  const float* gate = nullptr;  // backward, or none
};

// factors[n, c] = 0 or 1 / (1 - probability), from number e % 4 of block e / 4, where e is c's place in the whole.
struct ChannelFactorsArgs {
  std::int64_t channels = 0;
  DropoutStream stream;
  float* factors = nullptr;  // [N, C]
};

// to = from * factors[n, c], with relu and gate as above.
struct ChannelDropoutArgs {
  ChannelView view;
  const float* factors = nullptr;  // [N, C]
  const float* from = nullptr;
  float* to = nullptr;
  bool relu = false;
  const float* gate = nullptr;
};

struct DropoutLoops {
  void (*dropout)(const ElementDropoutArgs& args, Range samples);
  void (*channel_factors)(const ChannelFactorsArgs& args, Range samples);
  void (*channel_dropout)(const ChannelDropoutArgs& args, Range samples);
};

const DropoutLoops& dropout_loops();

}  // namespace trifold::cpu
