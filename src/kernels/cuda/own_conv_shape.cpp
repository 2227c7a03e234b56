#include "kernels/cuda/own_conv_shape.h"

#include <limits>
#include <numeric>

#include "core/error.h"

namespace trifold::cuda {
namespace {

int narrow(std::int64_t value) {
  TRIFOLD_CHECK(value >= 0 && value <= std::numeric_limits<int>::max(), "{} is too large for a convolution", value);
  return static_cast<int>(value);
}

}  // namespace

ConvShape conv_shape(const Conv2dArgs& args, const Shape& x, const Shape& w, const Shape& y) {
  TRIFOLD_CHECK(x.rank() == 4 && w.rank() == 4 && y.rank() == 4, "a convolution of {} by {} to {}", to_string(x),
                to_string(w), to_string(y));
  TRIFOLD_CHECK(x[0] == y[0] && x[1] == w[1] * args.groups && y[1] == w[0] && w[0] % args.groups == 0,
                "a convolution of {} by {} to {} in {} groups", to_string(x), to_string(w), to_string(y), args.groups);
  // Places within one sample, and pixels over all samples, are counted in 32 bits.
  narrow(x[1] * x[2] * x[3]);
  narrow(y[1] * y[2] * y[3]);
  narrow(x[0] * x[2] * x[3]);
  narrow(y[0] * y[2] * y[3]);
  narrow(w.elements());
  return {.samples = narrow(x[0]),
          .groups = narrow(args.groups),
          .in_channels = narrow(w[1]),
          .in_height = narrow(x[2]),
          .in_width = narrow(x[3]),
          .out_channels = narrow(w[0] / args.groups),
          .out_height = narrow(y[2]),
          .out_width = narrow(y[3]),
          .kernel_height = narrow(w[2]),
          .kernel_width = narrow(w[3])};
}

GatherAxis forward_axis(const Conv2dArgs& args, const ConvShape& shape, int dim) {
  const auto at = static_cast<std::size_t>(dim);
  GatherAxis axis;
  axis.kernel_extent = dim == 0 ? shape.kernel_height : shape.kernel_width;
  axis.out_extent = dim == 0 ? shape.out_height : shape.out_width;
  axis.source_extent = dim == 0 ? shape.in_height : shape.in_width;
  axis.source_per_tap = narrow(args.dilation[at]);
  axis.source_per_pixel = narrow(args.stride[at]);
  axis.by_class = {{.taps = axis.kernel_extent, .pixels = axis.out_extent, .source_begin = -narrow(args.pad[at])}};
  return axis;
}

GatherAxis backward_axis(const Conv2dArgs& args, const ConvShape& shape, int dim) {
  const auto at = static_cast<std::size_t>(dim);
  const int stride = narrow(args.stride[at]), dilation = narrow(args.dilation[at]), pad = narrow(args.pad[at]);
  GatherAxis axis;
  axis.kernel_extent = dim == 0 ? shape.kernel_height : shape.kernel_width;
  axis.out_extent = dim == 0 ? shape.in_height : shape.in_width;
  axis.source_extent = dim == 0 ? shape.out_height : shape.out_width;
  axis.classes = stride;
  axis.tap_stride = stride / std::gcd(stride, dilation);
  axis.source_per_tap = -(axis.tap_stride * dilation / stride);
  int earlier_taps = 0;
  for (int rest = 0; rest < stride; ++rest) {
    AxisClass c{.earlier_taps = earlier_taps};
    if (axis.out_extent > rest) c.pixels = (axis.out_extent - rest + stride - 1) / stride;
    for (int tap = 0; tap < axis.tap_stride && tap < axis.kernel_extent; ++tap) {
      const int from = rest + pad - tap * dilation;
      if (from % stride != 0) continue;
      c.first_tap = tap;
      c.taps = (axis.kernel_extent - tap + axis.tap_stride - 1) / axis.tap_stride;
      c.source_begin = from / stride;
      break;
    }
    earlier_taps += c.taps;
    axis.by_class.push_back(c);
  }
  TRIFOLD_CHECK(earlier_taps == axis.kernel_extent, "{} of {} taps in classes", earlier_taps, axis.kernel_extent);
  return axis;
}

}  // namespace trifold::cuda
