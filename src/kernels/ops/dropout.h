// Dropout of elements or of whole channels. Which are dropped depends on seed, layer and the sample's place in the
// training stream only (Philox), so that backward draws the same again and no mask is kept. Element e of a sample is
// numbered pixel * C + channel, in every memory layout, by its place in the whole tensor where a rank has a part of it.
// Kept values are multiplied by 1 / (1 - probability).
#pragma once

#include <fmt/format.h>

#include "kernels/op.h"

namespace trifold {

struct DropoutArgs {
  double probability = 0.5;
  bool channels = false;    // dropout2d: numbered by channel alone
  std::uint32_t layer = 0;  // the random stream
  // Of a tensor that is part of a whole: where it begins in it.
  std::int64_t first_channel = 0;
  std::int64_t first_pixel = 0;
  std::int64_t whole_channels = 0;  // 0: the tensor has them all

  std::string text() const {
    std::string part;
    if (whole_channels > 0) part += fmt::format(" from channel {} of {}", first_channel, whole_channels);
    if (first_pixel > 0) part += fmt::format(" from pixel {}", first_pixel);
    return fmt::format("p {}{}{}", probability, channels ? " channels" : "", part);
  }
};

// in: x; out: y. relu: y = max(0, dropout(x)).
struct DropoutForward final : Op {
  DropoutArgs args;
  bool relu = false;

  std::string_view name() const override { return "dropout.forward"; }
  OpKind kind() const override { return OpKind::element_wise; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  bool ends_with_relu() const override { return relu; }
  std::string attributes() const override { return args.text() + (relu ? " relu" : ""); }
  std::vector<int> in_place(int) const override { return {0}; }
};

// in: dy, [y (relu)]; out: dx
struct DropoutBackward final : Op {
  DropoutArgs args;
  bool relu = false;

  std::string_view name() const override { return "dropout.backward"; }
  OpKind kind() const override { return OpKind::element_wise; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return args.text() + (relu ? " relu" : ""); }
  std::vector<int> in_place(int) const override { return relu ? std::vector<int>{0, 1} : std::vector<int>{0}; }
};

}  // namespace trifold
