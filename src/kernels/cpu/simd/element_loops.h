// Sums, products and channel-wise sums on the calling thread: over a range of elements, or of samples where the layout
// matters. Tensors are given whole; results may be written over any input of the same shape.
#pragma once

#include <cstdint>

#include "core/parallel.h"
#include "kernels/cpu/simd/channel_view.h"

namespace trifold::cpu {

// y = a + b, then max(0, .).
struct AddArgs {
  ChannelView view;
  const float* a = nullptr;
  const float* b = nullptr;
  bool relu = false;
  float* y = nullptr;
  std::uint8_t* mask = nullptr;  // with relu, or none: y > 0, mask_bytes(view) a sample
};

// dx = dy where the bit of a mask is set, else 0.
struct MaskBackwardArgs {
  ChannelView view;
  const float* dy = nullptr;
  const std::uint8_t* mask = nullptr;
  float* dx = nullptr;
};

// y = x + bias[c].
struct BiasAddArgs {
  ChannelView view;
  const float* x = nullptr;
  const float* bias = nullptr;  // [C]
  float* y = nullptr;
};

struct ChannelSumArgs {
  ChannelView view;
  const float* x = nullptr;
  double* sum = nullptr;  // [C], added to
};

struct ElementLoops {
  void (*add)(const AddArgs& args, Range samples);
  void (*mask_backward)(const MaskBackwardArgs& args, Range samples);
  void (*bias_add)(const BiasAddArgs& args, Range samples);
  void (*channel_sum)(const ChannelSumArgs& args, Range samples);
  void (*add_in_place)(const float* x, float* y, Range elements);         // y += x
  void (*scale)(const float* x, float factor, float* y, Range elements);  // y = factor * x
};

const ElementLoops& element_loops();

}  // namespace trifold::cpu
