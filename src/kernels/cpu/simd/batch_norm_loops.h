// Batch norm's loops, each over a range of samples on the calling thread. Tensors are given whole (the range indexes
// them) in the layout of `view`; per-channel arrays hold view.channels values of one statistics group.
#pragma once

#include <cstdint>

#include "core/parallel.h"
#include "kernels/cpu/simd/channel_view.h"

namespace trifold::cpu {

// Writes a number near the mean of each channel: the average of eight values, evenly spaced over the samples. Where all
// values are equal, it is exactly that value.
struct BatchNormCenterArgs {
  ChannelView view;
  const float* x = nullptr;  // [N, C, P]
  float* center = nullptr;   // [C]
};

// Adds to sum and sum_squares those of x - center. A center within a few deviations of the mean keeps the variance
// exact.
struct BatchNormStatisticsArgs {
  ChannelView view;
  const float* x = nullptr;       // [N, C, P]
  const float* center = nullptr;  // [C]
  double* sum = nullptr;          // [C], added to
  double* sum_squares = nullptr;  // [C], added to
};

// y = (x - mean) * scale + shift, then + residual (* residual_scale), then max(0, .). y may be x or residual. The mean
// is subtracted first: as a part of `shift` it would be rounded where it is large against the deviation.
struct BatchNormApplyArgs {
  ChannelView view;
  const float* x = nullptr;
  const float* mean = nullptr;            // [C]
  const float* scale = nullptr;           // [C]
  const float* shift = nullptr;           // [C]
  const float* residual = nullptr;        // like x, or none
  const float* residual_scale = nullptr;  // [C], or none; the residual's own shift is part of `shift`
  bool relu = false;
  float* y = nullptr;
  std::uint8_t* mask = nullptr;  // with relu, or none: y > 0, mask_bytes(view) a sample
};

// Where a fused relu was on. At most one of the two is given; none: there was no relu.
struct ReluGate {
  const std::uint8_t* mask = nullptr;  // as BatchNormApplyArgs::mask
  const float* scale = nullptr;        // [C]: on where (x - mean) * scale + shift > 0
  const float* shift = nullptr;        // [C]
};

// d = dy (+ dy2), zero where the relu was off. Adds to sum_d and sum_dx those of d and d * (x - mean).
struct BatchNormBackwardReduceArgs {
  ChannelView view;
  const float* dy = nullptr;
  const float* dy2 = nullptr;  // or none
  const float* x = nullptr;
  const float* mean = nullptr;  // [C]
  ReluGate gate;
  double* sum_d = nullptr;       // [C], added to
  double* sum_dx = nullptr;      // [C], added to
  const float* x2 = nullptr;     // the residual branch's batch norm, or none
  const float* mean2 = nullptr;  // [C]
  double* sum_dx2 = nullptr;     // [C], added to: of d * (x2 - mean2)
  float* d = nullptr;            // written when given; may be dy or dy2
};

// dx = p * d + q * (x - mean) + r, with d zero where the relu was off. dx may be d or x.
struct BatchNormBackwardInputArgs {
  ChannelView view;
  const float* d = nullptr;
  const float* x = nullptr;
  const float* mean = nullptr;  // [C]
  ReluGate gate;
  const float* p = nullptr;  // [C]
  const float* q = nullptr;  // [C]
  const float* r = nullptr;  // [C]
  float* dx = nullptr;
};

struct BatchNormLoops {
  void (*center)(const BatchNormCenterArgs& args, Range samples);
  void (*statistics)(const BatchNormStatisticsArgs& args, Range samples);
  void (*apply)(const BatchNormApplyArgs& args, Range samples);
  void (*backward_reduce)(const BatchNormBackwardReduceArgs& args, Range samples);
  void (*backward_input)(const BatchNormBackwardInputArgs& args, Range samples);
};

const BatchNormLoops& batch_norm_loops();

}  // namespace trifold::cpu
