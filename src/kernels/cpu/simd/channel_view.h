// How the channel-wise loops see a tensor: samples of `channels` planes of `pixels` floats, plain [C][P] or blocked by
// the vector [C/V][P][V]. Features [N, F] are C = F channels of one pixel. Blocked needs V to divide the channels.
#pragma once

#include <cstdint>

namespace trifold::cpu {

struct ChannelView {
  std::int64_t channels = 0;
  std::int64_t pixels = 1;
  bool blocked = false;
};

// These have internal linkage: files of several instruction sets use them (see vec.h).
static constexpr std::int64_t sample_elements(const ChannelView& view) {
  return view.channels * view.pixels;
}

// Bytes a sample of a mask with one bit an element, in the order of the elements and lowest bit first. In a plain
// layout each plane starts at a whole byte; features (one pixel) are one plane of all channels.
static constexpr std::int64_t mask_bytes(const ChannelView& view) {
  if (view.blocked) return sample_elements(view) / 8;
  if (view.pixels == 1) return (view.channels + 7) / 8;
  return view.channels * ((view.pixels + 7) / 8);
}

}  // namespace trifold::cpu
