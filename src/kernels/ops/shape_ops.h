// Ops that join, cut, add, convert or re-lay tensors: add, concat and its inverse, flatten, cast, reorder.
#pragma once

#include "kernels/op.h"

namespace trifold {

// in: a, b; out: a + b. relu: max(0, a + b). Also the sum of two gradients of one value.
struct Add final : Op {
  bool relu = false;

  std::string_view name() const override { return "add"; }
  OpKind kind() const override { return OpKind::element_wise; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  bool ends_with_relu() const override { return relu; }
  std::string attributes() const override { return relu ? "relu" : ""; }
  std::vector<int> in_place(int) const override { return {0, 1}; }
};

// in: tensors that differ in channels only; out: all of them along channels
struct Concat final : Op {
  std::string_view name() const override { return "concat"; }
  OpKind kind() const override { return OpKind::movement; }
  LayoutRule layout_rule() const override { return LayoutRule::joins_channels; }
  void check_shapes(const OpTensors& tensors) const override;
};

// The inverse of concat: in: whole; out: its parts along channels, in order. Parts nobody needs are left out by
// `first_channel` of each part.
struct SplitChannels final : Op {
  std::vector<std::int64_t> first_channel;  // one an output

  std::string_view name() const override { return "split_channels"; }
  OpKind kind() const override { return OpKind::movement; }
  LayoutRule layout_rule() const override { return LayoutRule::splits_channels; }
  void check_shapes(const OpTensors& tensors) const override;
};

// in: x [N,C,H,W] or [N,F]; out: [N, C*H*W], or back. The same bytes under another shape.
struct Reshape final : Op {
  std::string_view name() const override { return "reshape"; }
  OpKind kind() const override { return OpKind::movement; }
  LayoutRule layout_rule() const override { return LayoutRule::as_given; }
  void check_shapes(const OpTensors& tensors) const override;
  bool is_view() const override { return true; }
};

// in: x, [loss scale f32 [4] (scaled)]; out: x as another float type. scaled: multiplied by the loss scale first.
struct Cast final : Op {
  bool scaled = false;

  std::string_view name() const override { return "cast"; }
  OpKind kind() const override { return OpKind::movement; }
  LayoutRule layout_rule() const override { return LayoutRule::like_first_tensor; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return scaled ? "scaled" : ""; }
  bool takes_any_type() const override { return true; }
};

// in: x; out: x in another layout
struct Reorder final : Op {
  std::string_view name() const override { return "reorder"; }
  OpKind kind() const override { return OpKind::layout_change; }
  LayoutRule layout_rule() const override { return LayoutRule::as_given; }
  void check_shapes(const OpTensors& tensors) const override;
};

}  // namespace trifold
