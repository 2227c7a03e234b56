// The extents of a convolution as our kernels count them, and one view of forward and backward_data: both gather. An
// output pixel sums weights times source pixels over channels and taps:
//
//   forward        y[n,o,p,q] = sum over c,r,s of w[o,c,r,s] x[n,c, p stride - pad + r dilation, ...]
//   backward_data  dx[n,c,h,w] = sum over o,r,s of w[o,c,r,s] dy[n,o, (h + pad - r dilation) / stride, ...]
//
// where backward takes only the taps that divide. Rows h that leave the same rest by the stride take the same taps, so
// they form a class that is a dense sum again: no tap is tested and thrown away. Forward has one class.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/conv2d.h"

namespace trifold::cuda {

struct ConvShape {
  int samples = 0;
  int groups = 1;
  int in_channels = 0, in_height = 0, in_width = 0;     // x; channels of a group
  int out_channels = 0, out_height = 0, out_width = 0;  // y; channels of a group
  int kernel_height = 0, kernel_width = 0;
  int taps() const { return kernel_height * kernel_width; }
  std::int64_t weights() const { return std::int64_t{groups} * out_channels * in_channels * taps(); }
};
ConvShape conv_shape(const Conv2dArgs& args, const Shape& x, const Shape& w, const Shape& y);

// The output rows (or columns) that take the same taps, along one dim.
struct AxisClass {
  int first_tap = 0;     // taps are first_tap, first_tap + GatherAxis::tap_stride, ...
  int taps = 0;          // how many
  int earlier_taps = 0;  // of the classes before this one
  int pixels = 0;        // output rows of this class: class index, + GatherAxis::classes, ...
  int source_begin = 0;  // source row of the first tap for the first of them
};

struct GatherAxis {
  int classes = 1;
  int tap_stride = 1;        // between a class's taps
  int source_per_tap = 1;    // source rows from tap to tap, may be negative
  int source_per_pixel = 1;  // source rows from output row to output row of a class
  int out_extent = 0;
  int source_extent = 0;
  int kernel_extent = 0;
  std::vector<AxisClass> by_class;
};
GatherAxis forward_axis(const Conv2dArgs& args, const ConvShape& shape, int dim);
GatherAxis backward_axis(const Conv2dArgs& args, const ConvShape& shape, int dim);

}  // namespace trifold::cuda
