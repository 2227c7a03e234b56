// The inner loops of a network's first convolution, one table per instruction set: x is plain with few channels, y is
// blocked by channels. They read a padded copy of the rows they need, in which the columns that one tap meets are
// neighbours whatever the stride, so that no loop tests for an edge. They run on the calling thread.
#pragma once

#include <cstdint>

namespace trifold::cpu {

// Rows [first_row, first_row + rows) of one sample (zeros outside it), as [rows][C][phases][columns]: phase p, column q
// is the input column q * phases + p - pad.
struct FirstConvCopy {
  const float* x = nullptr;  // [C][H][W]
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t first_row = 0;  // may be negative
  std::int64_t rows = 0;
  std::int64_t phases = 1;  // the stride of the convolution
  std::int64_t columns = 0;
  std::int64_t pad = 0;
  float* out = nullptr;
};

// A band of output rows of one sample. Tap t (of kernel row, column and channel) of output (row, column) is
// x[row * x_row_step + taps[t] + column].
struct FirstConvBand {
  const float* x = nullptr;
  std::int64_t x_row_step = 0;
  const std::int64_t* taps = nullptr;
  std::int64_t tap_count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t out_vectors = 0;   // O / lanes
  std::int64_t plane_floats = 0;  // from one vector of output channels to the next, in y and dy
};

struct FirstConvForwardBand {
  FirstConvBand band;
  const float* w = nullptr;     // [O/V][taps][V]
  const float* bias = nullptr;  // [O] or null
  bool relu = false;
  float* y = nullptr;  // the first row of the band, [O/V][plane]
  // Sums over the band of stored y - center and of its square are added to these; null: none.
  const float* stat_center = nullptr;  // [O]; null: 0
  double* stat_sum = nullptr;          // [O]
  double* stat_sumsq = nullptr;        // [O]
};

struct FirstConvWeightsBand {
  FirstConvBand band;
  const float* dy = nullptr;  // the first row of the band, [O/V][plane]
  float* dw = nullptr;        // [O/V][taps][V], added to
  float* dbias = nullptr;     // [O], added to; or null
};

struct FirstConvLoops {
  int lanes;
  void (*copy)(const FirstConvCopy& copy);
  void (*forward)(const FirstConvForwardBand& band);
  void (*backward_weights)(const FirstConvWeightsBand& band);
};

const FirstConvLoops& first_conv_loops();

}  // namespace trifold::cpu
