// Moves of activations, over a range of samples on the calling thread: between plain and blocked layout, and of channel
// ranges between tensors (concat, slice). Source and destination do not overlap.
#pragma once

#include <cstdint>

#include "core/parallel.h"

namespace trifold::cpu {

// The vector (simd_lanes) divides the channels.
struct ReorderArgs {
  std::int64_t channels = 0;
  std::int64_t pixels = 1;
  const float* from = nullptr;
  float* to = nullptr;
};

// `channels` channels from first_from of one tensor to first_to of another. Layouts are equal; in a blocked one the
// vector divides all five channel counts, so that a channel range is one run in either layout.
struct CopyChannelsArgs {
  std::int64_t pixels = 1;
  std::int64_t channels = 0;
  const float* from = nullptr;
  std::int64_t from_channels = 0, first_from = 0;
  float* to = nullptr;
  std::int64_t to_channels = 0, first_to = 0;
};

struct LayoutLoops {
  void (*to_blocked)(const ReorderArgs& args, Range samples);
  void (*to_plain)(const ReorderArgs& args, Range samples);
  void (*copy_channels)(const CopyChannelsArgs& args, Range samples);
};

const LayoutLoops& layout_loops();

}  // namespace trifold::cpu
