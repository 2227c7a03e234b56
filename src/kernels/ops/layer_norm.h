// Layer norm over the channels at each place of x. x is [N,C,H,W], whose places are the pixels of each sample, or
// [N,C], whose places are the samples. Statistics are [N, pixels]: a mean and an istd (1/sqrt(var+eps)) for each place.
#pragma once

#include "kernels/op.h"
#include "kernels/ops/op_tensors.h"

namespace trifold {

// What the three ops have in common.
struct LayerNormOp : Op {
  OpKind kind() const override { return OpKind::reduction; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }

 protected:
  static void check_statistics(const OpTensors& tensors, const OpTensor& tensor, const OpTensor& x) {
    tensors.shape(tensor, {x.shape.batch(), x.shape.pixels()});
  }
  static double elements(std::span<const TensorDesc> in) { return static_cast<double>(in[0].elements()); }
};

// y = (x - mean) * istd * weight[c] + bias[c]. in: x, weight [C], bias [C];
// out: y, [mean, istd (keep_statistics)]
struct LayerNormForward final : LayerNormOp {
  double eps = 1e-5;
  bool keep_statistics = true;  // training; evaluation needs none

  std::string_view name() const override { return "layer_norm.forward"; }
  void check_shapes(const OpTensors& tensors) const override {
    tensors.counts(3, keep_statistics ? 3 : 1);
    const OpTensor& x = tensors.in(0);
    for (const std::size_t i : {1, 2}) tensors.channel_vector(tensors.in(i), x);
    tensors.same(tensors.out(0), x);
    for (std::size_t i = 1; i < tensors.out().size(); ++i) check_statistics(tensors, tensors.out(i), x);
  }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override { return 8 * elements(in); }
  bool keeps_f32(Side, int index) const override { return index >= 1; }
  std::vector<int> in_place(int out) const override { return out == 0 ? std::vector<int>{0} : std::vector<int>{}; }
};

// With g = dy * weight[c] and means over the channels of a place:
// dx = istd * (g - mean of g - (x - mean) * istd^2 * mean of g * (x - mean)).
// in: dy, x, mean, istd, weight [C]; out: dx
struct LayerNormBackwardInput final : LayerNormOp {
  std::string_view name() const override { return "layer_norm.backward_input"; }
  void check_shapes(const OpTensors& tensors) const override {
    tensors.counts(5, 1);
    const OpTensor& x = tensors.in(1);
    tensors.same(tensors.in(0), x);
    for (const std::size_t i : {2, 3}) check_statistics(tensors, tensors.in(i), x);
    tensors.channel_vector(tensors.in(4), x);
    tensors.same(tensors.out(0), x);
  }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override { return 11 * elements(in); }
  bool keeps_f32(Side side, int index) const override { return side == Side::in && index >= 2; }
  std::vector<int> in_place(int) const override { return {1, 0}; }
  int leading_image() const override { return 1; }
};

// Sums over all places: dweight[c] of dy * (x - mean) * istd, dbias[c] of dy.
// in: dy, x, mean, istd; out: dweight [C], dbias [C]
struct LayerNormBackwardParameters final : LayerNormOp {
  std::string_view name() const override { return "layer_norm.backward_parameters"; }
  void check_shapes(const OpTensors& tensors) const override {
    tensors.counts(4, 2);
    const OpTensor& x = tensors.in(1);
    tensors.same(tensors.in(0), x);
    for (const std::size_t i : {2, 3}) check_statistics(tensors, tensors.in(i), x);
    for (const std::size_t i : {0, 1}) tensors.channel_vector(tensors.out(i), x);
  }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override { return 5 * elements(in); }
  bool keeps_f32(Side side, int index) const override { return side == Side::out || index >= 2; }
  int leading_image() const override { return 1; }
};

}  // namespace trifold
