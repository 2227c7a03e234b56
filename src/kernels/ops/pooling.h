// Pooling over windows of an image and over the whole image. x [N,C,H,W], y [N,C,H',W'].
#pragma once

#include <fmt/format.h>

#include "core/fields.h"
#include "kernels/op.h"

namespace trifold {

struct PoolArgs {
  Pair kernel = {2, 2};
  Pair stride = {2, 2};
  Pair pad = {0, 0};

  std::string text() const {
    return fmt::format("kernel {}x{} stride {}x{} pad {}x{}", kernel[0], kernel[1], stride[0], stride[1], pad[0],
                       pad[1]);
  }
};

// in: x; out: y, [argmax u8 (keep_argmax), shape and layout of y: row * kernel width + column of the first maximum]
struct MaxPoolForward final : Op {
  PoolArgs args;
  bool keep_argmax = true;  // training; evaluation needs none

  std::string_view name() const override { return "max_pool.forward"; }
  OpKind kind() const override { return OpKind::reduction; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return args.text(); }
};

// in: dy, argmax, [y (relu)]; out: dx. relu: y came from a relu whose gradient is undone here: dx = 0 where y <= 0.
struct MaxPoolBackward final : Op {
  PoolArgs args;
  bool relu = false;

  std::string_view name() const override { return "max_pool.backward"; }
  OpKind kind() const override { return OpKind::movement; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return args.text() + (relu ? " relu" : ""); }
  int leading_image() const override { return 1; }
};

// What the sum of a window is divided by: its area, or how much of it lies inside the image.
struct PoolDivisor {
  bool count_pad = true;  // padding counts as zeros; else the mean is over what lies inside
  // Rows at the top and at the bottom of x that are padding already: a rank that has some rows of the image gets its
  // padding with them.
  std::int64_t pad_above = 0;
  std::int64_t pad_below = 0;

  std::string text() const {
    if (count_pad) return "";
    return pad_above + pad_below > 0 ? fmt::format(" inside, pad rows {}+{}", pad_above, pad_below) : " inside";
  }
};

// in: x; out: y
struct AvgPoolForward final : Op {
  PoolArgs args;
  PoolDivisor divisor;

  std::string_view name() const override { return "avg_pool.forward"; }
  OpKind kind() const override { return OpKind::reduction; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return args.text() + divisor.text(); }
};

// in: dy; out: dx
struct AvgPoolBackward final : Op {
  PoolArgs args;
  PoolDivisor divisor;

  std::string_view name() const override { return "avg_pool.backward"; }
  OpKind kind() const override { return OpKind::movement; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return args.text() + divisor.text(); }
};

// in: x [N,C,H,W]; out: y [N,C], plain
// Where x has some rows of the images, y is their part of the mean.
struct GlobalAvgPoolForward final : Op {
  std::int64_t pixels = 0;  // of a whole image; 0: x has them all

  std::string_view name() const override { return "global_avg_pool.forward"; }
  OpKind kind() const override { return OpKind::reduction; }
  LayoutRule layout_rule() const override { return LayoutRule::image_to_row; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return pixels > 0 ? fmt::format("of {} pixels", pixels) : ""; }
};

// in: dy [N,C]; out: dx [N,C,H,W]
struct GlobalAvgPoolBackward final : Op {
  std::int64_t pixels = 0;  // as forward

  std::string_view name() const override { return "global_avg_pool.backward"; }
  OpKind kind() const override { return OpKind::movement; }
  LayoutRule layout_rule() const override { return LayoutRule::row_to_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return pixels > 0 ? fmt::format("of {} pixels", pixels) : ""; }
};

}  // namespace trifold
