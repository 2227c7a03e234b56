// Batch norm in parts, so that statistics can be synchronised between ranks and the parts fused with their neighbours.
// x is [N,C,...]; statistics are taken over groups of `group` consecutive samples: mean and istd are [N/group, C].
#pragma once

#include <vector>

#include <fmt/format.h>

#include "kernels/op.h"

namespace trifold {

// in: x, running_mean [C], running_var [C]; out: mean, istd (1/sqrt(var+eps)), running_mean, running_var.
// Running averages move by `momentum` towards each group's mean and unbiased variance, in group order. Between replicas
// it is 0 here: BatchNormJoin moves them.
struct BatchNormStatistics final : Op {
  std::int64_t group = 0;
  double eps = 1e-5;
  double momentum = 0.1;

  std::string_view name() const override { return "batch_norm.statistics"; }
  OpKind kind() const override { return OpKind::reduction; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  bool may_run_twice() const override { return false; }  // a few numbers a channel: kept
  std::string attributes() const override { return fmt::format("group {}", group); }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override {
    return 3.0 * static_cast<double>(in[0].elements());
  }
  bool keeps_f32(Side side, int index) const override { return side == Side::out || index > 0; }
  // running averages are updated where they lie
  std::vector<int> in_place(int out) const override {
    return out >= 2 ? std::vector<int>{out - 1} : std::vector<int>{};
  }
};

// The statistics of all replicas, gathered in the order of their samples, as one model's: a group that lies on `span`
// replicas is joined, and the running averages move by every group in order, the same way on every replica.
// in: mean, istd [replicas * groups, C] of `group` samples each, running_mean, running_var;
// out: running_mean, running_var, and where span > 1: mean, istd [1, C] of the group that this replica has a part of.
struct BatchNormJoin final : Op {
  std::int64_t group = 0;   // samples behind one row
  std::int64_t pixels = 1;  // values a sample has in a channel
  int span = 1;
  int replica = 0;
  double eps = 1e-5;
  double momentum = 0.1;

  std::string_view name() const override { return "batch_norm.join"; }
  OpKind kind() const override { return OpKind::reduction; }
  void check_shapes(const OpTensors& tensors) const override;
  bool may_run_twice() const override { return false; }  // a few numbers a channel: kept
  std::string attributes() const override { return fmt::format("group {} span {}", group, span); }
  bool keeps_f32(Side, int) const override { return true; }
  std::vector<int> in_place(int out) const override { return out < 2 ? std::vector<int>{out + 2} : std::vector<int>{}; }
};

// The statistics of images of which every tensor rank has a run of rows, as those of the whole images.
// in: mean, istd [ranks * groups, C], those of rank 0 first, [running_mean, running_var (running)];
// out: mean, istd [groups, C], [running_mean, running_var (running)]: moved by every group in order.
struct BatchNormJoinRows final : Op {
  std::int64_t group = 0;            // samples
  std::vector<std::int64_t> pixels;  // by rank: values a sample has there in a channel
  bool running = false;
  double eps = 1e-5;
  double momentum = 0.1;

  std::string_view name() const override { return "batch_norm.join_rows"; }
  OpKind kind() const override { return OpKind::reduction; }
  void check_shapes(const OpTensors& tensors) const override;
  bool may_run_twice() const override { return false; }  // a few numbers a channel: kept
  std::string attributes() const override { return fmt::format("group {} ranks {}", group, pixels.size()); }
  bool keeps_f32(Side, int) const override { return true; }
  std::vector<int> in_place(int out) const override { return out >= 2 ? std::vector<int>{out} : std::vector<int>{}; }
};

// Evaluation: the running averages as the statistics of one group. in: running_mean, running_var; out: mean, istd
// [1,C].
struct BatchNormRunning final : Op {
  double eps = 1e-5;

  std::string_view name() const override { return "batch_norm.running"; }
  OpKind kind() const override { return OpKind::element_wise; }
  void check_shapes(const OpTensors& tensors) const override;
  bool keeps_f32(Side, int) const override { return true; }
};

// y = (x - mean) * istd * gamma + beta, then + residual, then max(0, .).
// in: x, mean, istd, gamma [C], beta [C], [residual (shape of x)]; out: y, [mask u8: one bit an element, y > 0].
// The mask exists when relu and residual both do: backward can then not tell it from x. Its bits lie in the order of x.
struct BatchNormApply final : Op {
  std::int64_t group = 0;
  bool relu = false;
  bool residual = false;

  std::string_view name() const override { return "batch_norm.apply"; }
  OpKind kind() const override { return OpKind::element_wise; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  bool ends_with_relu() const override { return relu; }
  std::string attributes() const override {
    return fmt::format("group {}{}{}", group, residual ? " residual" : "", relu ? " relu" : "");
  }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override {
    return (2.0 + residual + relu) * static_cast<double>(in[0].elements());
  }
  bool keeps_f32(Side side, int index) const override { return side == Side::in && index >= 1 && index <= 4; }
  std::vector<int> in_place(int out) const override {
    return out == 0 && residual ? std::vector<int>{5} : std::vector<int>{};
  }
  std::optional<int> mask_follows(Side side, int index) const override {
    return side == Side::out && index == 1 ? std::optional(0) : std::nullopt;
  }
};

// What of a fused relu the backward part has to undo.
enum class ReluMask {
  none,
  from_x,  // where (x - mean) * istd * gamma + beta > 0
  bits,    // from the mask that BatchNormApply wrote
};

// The sums that the gradient needs. d = dy (+ dy2), zeroed where the fused relu was off.
// in: dy, x, mean, istd, gamma, beta, [dy2 (second_gradient)], [mask (bits)];
// out: sum_d [N/group,C], sum_dx [N/group,C] (of d * (x-mean)), dgamma [C], dbeta [C], [d (write_d)].
struct BatchNormBackwardReduce final : Op {
  std::int64_t group = 0;
  ReluMask mask = ReluMask::none;
  bool second_gradient = false;
  bool write_d = false;

  std::string_view name() const override { return "batch_norm.backward_reduce"; }
  OpKind kind() const override { return OpKind::reduction; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override {
    return fmt::format("group {}{}{}{}", group,
                       mask == ReluMask::none   ? ""
                       : mask == ReluMask::bits ? " mask"
                                                : " relu",
                       second_gradient ? " sum" : "", write_d ? " write" : "");
  }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override {
    return 4.0 * static_cast<double>(in[0].elements());
  }
  bool keeps_f32(Side side, int index) const override {
    return side == Side::in ? index >= 2 && index <= 5 : index <= 3;
  }
  std::vector<int> in_place(int out) const override {
    if (out != 4) return {};
    return second_gradient ? std::vector<int>{0, 6} : std::vector<int>{0};
  }
  int leading_image() const override { return 1; }
  std::optional<int> mask_follows(Side side, int index) const override {
    const int mask_index = second_gradient ? 7 : 6;
    return side == Side::in && mask == ReluMask::bits && index == mask_index ? std::optional(1) : std::nullopt;
  }
};

// dx from d and the sums. in: d (or dy), x, mean, istd, gamma, beta, sum_d, sum_dx; out: dx.
// mask none: the first input is d already; from_x: it is dy, and the relu is undone here too. The sums may be of a
// group that lies on `span` replicas, and of whole images where x has some of their rows.
struct BatchNormBackwardInput final : Op {
  std::int64_t group = 0;
  int span = 1;
  std::int64_t pixels = 0;  // of a whole image; 0: x has them all
  ReluMask mask = ReluMask::none;

  // What the sums are of, where x has so many pixels.
  double values(std::int64_t x_pixels) const {
    return static_cast<double>(group * span * (pixels > 0 ? pixels : x_pixels));
  }
  std::string_view name() const override { return "batch_norm.backward_input"; }
  OpKind kind() const override { return OpKind::element_wise; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override {
    return fmt::format("group {}{}", group, mask == ReluMask::from_x ? " relu" : "");
  }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override {
    return 4.0 * static_cast<double>(in[0].elements());
  }
  bool keeps_f32(Side side, int index) const override { return side == Side::in && index >= 2; }
  std::vector<int> in_place(int) const override { return {1, 0}; }
  int leading_image() const override { return 1; }
};

}  // namespace trifold
