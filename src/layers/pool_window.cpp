#include "layers/pool_window.h"

#include <fmt/format.h>

#include "kernels/ops/conv2d.h"

namespace trifold {

Fields pool_fields() {
  return {{.name = "kernel", .kind = FieldKind::pair, .minimum = 1, .help = "height and width of the window"},
          {.name = "stride", .kind = FieldKind::pair, .optional = true, .minimum = 1, .help = "default: the kernel"},
          {.name = "pad",
           .kind = FieldKind::pair,
           .fallback = Pair{0, 0},
           .minimum = 0,
           .help = "on each side, at most half the kernel"}};
}

PoolArgs pool_args(const FieldValues& values) {
  const Pair kernel = values.pair("kernel");
  return {.kernel = kernel, .stride = values.has("stride") ? values.pair("stride") : kernel, .pad = values.pair("pad")};
}

Shape pool_shape(const PoolArgs& args, const Shape& x) {
  if (x.rank() != 4) throw ShapeError{fmt::format("needs an input of [N, C, H, W] but gets {}", to_string(x)), 0};
  Shape y{x[0], x[1]};
  for (int dim = 0; dim < 2; ++dim) {
    const auto d = static_cast<std::size_t>(dim);
    // So that every window holds something of the image.
    if (2 * args.pad[d] > args.kernel[d])
      throw ShapeError{fmt::format("pad {} is more than half of its kernel {}", args.pad[d], args.kernel[d]), {}};
    const std::int64_t extent = conv_out_extent(x[2 + dim], args.kernel[d], args.stride[d], args.pad[d], 1);
    if (extent < 1)
      throw ShapeError{fmt::format("kernel {} does not fit its input's {} {} with pad {}", args.kernel[d],
                                   dim == 0 ? "height" : "width", x[2 + dim], args.pad[d]),
                       0};
    y.push_back(extent);
  }
  return y;
}

RowWindow pool_rows(const PoolArgs& args, RowEdge edge) {
  return {.kernel = args.kernel[0], .stride = args.stride[0], .pad = args.pad[0], .edge = edge};
}

}  // namespace trifold
