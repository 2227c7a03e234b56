// Layer norm's loops, each over a range of places (of samples for the parameters) on the calling thread. Place p of
// sample n has number n * view.pixels + p; statistics have one value for each place. Tensors are given whole, in the
// layout of `view`.
#pragma once

#include <cstdint>

#include "core/parallel.h"
#include "kernels/cpu/simd/channel_view.h"

namespace trifold::cpu {

// y = (x - mean) * istd * weight + bias. y may be x.
struct LayerNormForwardArgs {
  ChannelView view;
  float eps = 0;
  const float* x = nullptr;
  const float* weight = nullptr;  // [C]
  const float* bias = nullptr;    // [C]
  float* y = nullptr;
  float* mean = nullptr;  // or none
  float* istd = nullptr;  // or none
};

// dx = istd * (g - mean of g - (x - mean) * istd^2 * mean of g * (x - mean)), with g = dy * weight. dx may be dy or x.
struct LayerNormBackwardInputArgs {
  ChannelView view;
  const float* dy = nullptr;
  const float* x = nullptr;
  const float* mean = nullptr;
  const float* istd = nullptr;
  const float* weight = nullptr;  // [C]
  float* dx = nullptr;
};

struct LayerNormBackwardParametersArgs {
  ChannelView view;
  const float* dy = nullptr;
  const float* x = nullptr;
  const float* mean = nullptr;
  const float* istd = nullptr;
  double* dweight = nullptr;  // [C], added to
  double* dbias = nullptr;    // [C], added to
};

struct LayerNormLoops {
  void (*forward)(const LayerNormForwardArgs& args, Range places);
  void (*backward_input)(const LayerNormBackwardInputArgs& args, Range places);
  void (*backward_parameters)(const LayerNormBackwardParametersArgs& args, Range samples);
};

const LayerNormLoops& layer_norm_loops();

}  // namespace trifold::cpu
