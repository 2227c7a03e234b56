// The first convolution of a network: x is plain [N][C][H][W] with few channels, y is blocked [N][O/V][H'][W'][V], and
// weights are [O/V][R][S][C][V of O], with V = lanes of the vectors in use and O a multiple of V. Forward and weight
// gradient; there is no layer before it to want another. The same to the bit for a given number of threads; nothing
// allocates but the constructor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/simd/first_conv_loops.h"

namespace trifold::cpu {

// Pairs are {height, width}.
struct FirstConvShape {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::array<std::int64_t, 2> image = {0, 0};
  std::int64_t out = 0;
  std::array<std::int64_t, 2> kernel = {1, 1};
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> pad = {0, 0};
  std::array<std::int64_t, 2> dilation = {1, 1};
  std::int64_t stat_group = 0;  // samples to one set of statistics; 0: the whole batch

  std::int64_t out_extent(int dim) const;
  std::int64_t stat_groups() const;
};

struct FirstConvForwardArgs {
  std::span<const float> x;
  std::span<const float> w;
  std::span<const float> bias = {};  // [O] or empty
  bool relu = false;                 // y = max(y, 0)
  std::span<float> y;
  // Sums over a group's stored y of (y - stat_center) and of its square, overwritten. Empty: none.
  std::span<const float> stat_center = {};  // [O]; empty: 0
  std::span<double> stat_sum = {};          // [groups][O]
  std::span<double> stat_sumsq = {};        // [groups][O]
};

struct FirstConvBackwardWeightsArgs {
  std::span<const float> x;
  std::span<const float> dy;
  std::span<float> dw;
  std::span<float> dbias = {};  // [O] or empty
  bool accumulate = false;      // add to what dw and dbias hold
};

class FirstConv {
 public:
  static bool supports(const FirstConvShape& shape, const FirstConvLoops& loops = first_conv_loops());
  // `threads` parts, run on however many threads the team has.
  FirstConv(const FirstConvShape& shape, int threads, const FirstConvLoops& loops = first_conv_loops());

  // Scratch is 64-byte aligned and holds nothing between calls.
  std::size_t forward_scratch_bytes() const;
  std::size_t backward_weights_scratch_bytes() const;

  void forward(const FirstConvForwardArgs& args, std::span<std::byte> scratch) const;
  void backward_weights(const FirstConvBackwardWeightsArgs& args, std::span<std::byte> scratch) const;

 private:
  // Calls body(sample, first output row, FirstConvBand) for each band of this part's share of the work.
  template <class Body>
  void for_each_band(std::span<const float> x, int part, float* copy, Body&& body) const;
  void add_statistics(const FirstConvForwardArgs& args, const double* partial) const;

  FirstConvShape shape_;
  int threads_;
  const FirstConvLoops* loops_;
  std::int64_t out_height_, out_width_;
  std::int64_t copy_columns_;       // of one phase of one row of the padded copy
  std::int64_t copy_row_floats_;    // of all channels and phases
  std::int64_t band_rows_;          // output rows that share a padded copy
  std::int64_t bands_;              // per sample
  std::int64_t copy_floats_;        // of one padded copy, whole cache lines
  std::vector<std::int64_t> taps_;  // [R][S][C]: see FirstConvBand
};

}  // namespace trifold::cpu
