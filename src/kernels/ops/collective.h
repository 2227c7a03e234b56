// What ranks exchange inside a step. An axis names the ranks that take part: those that differ from this one in that
// axis of the mesh only. Every rank of the axis runs the same collectives in the same order.
#pragma once

#include <fmt/format.h>

#include "kernels/op.h"

namespace trifold {

enum class Axis { data, tensor, pipeline };
inline constexpr int kAxes = 3;

constexpr const char* name_of(Axis axis) {
  switch (axis) {
    case Axis::data:
      return "data";
    case Axis::tensor:
      return "tensor";
    case Axis::pipeline:
      return "pipeline";
  }
  return "?";
}

// What all of them are: who waits for ranks, and what crosses between them, is asked of this alone.
struct Exchange : Op {
  Axis axis = Axis::data;

  OpKind kind() const override { return OpKind::exchange; }

  virtual bool is_message() const { return false; }  // from one rank to another, instead of among all of the axis
  // Bytes that a rank sends for tensors of these sizes, as a ring among `ranks` of them would.
  virtual double sent_bytes(double in, double out, double ranks) const = 0;
};

// in: x; out: the sum of every rank's x, in the order of ranks. `span`: only ranks that lie in one run of this many
// (0: all) of the axis's `ranks` are added up. Averaging is the loss's business.
// `aside`: it begins where it stands, while the work after it goes on, and has ended at the next JoinSums.
struct AllReduce final : Exchange {
  int span = 0;
  int ranks = 0;
  bool aside = false;

  std::string_view name() const override { return "all_reduce"; }
  LayoutRule layout_rule() const override { return LayoutRule::same_on_all_ranks; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override {
    return fmt::format("{}{}{}", name_of(axis), span > 0 ? fmt::format(" span {}", span) : "", aside ? " aside" : "");
  }
  // Sums over runs of ranks are made of what all have gathered.
  double sent_bytes(double in, double, double among) const override {
    return span > 0 ? (among - 1) * in : 2 * (among - 1) / among * in;
  }
  bool keeps_f32(Side, int) const override { return true; }
  std::vector<int> in_place(int) const override { return {0}; }
};

// in: x, of which parts are being added up aside; out: x, in place, when they are.
struct JoinSums final : Exchange {
  std::string_view name() const override { return "join_sums"; }
  double sent_bytes(double, double, double) const override { return 0; }
  bool keeps_f32(Side, int) const override { return true; }
  std::vector<int> in_place(int) const override { return {0}; }
};

// in: x; out: every rank's x in the order of ranks, stacked along the first dimension.
struct AllGather final : Exchange {
  std::string_view name() const override { return "all_gather"; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return name_of(axis); }
  double sent_bytes(double, double out, double among) const override { return (among - 1) / among * out; }
  bool keeps_f32(Side, int) const override { return true; }
};

// in: x [n]; out: [n / ranks], this rank's run of the sum of every rank's x, in the order of ranks.
struct ReduceScatter final : Exchange {
  std::string_view name() const override { return "reduce_scatter"; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return name_of(axis); }
  double sent_bytes(double in, double, double among) const override { return (among - 1) / among * in; }
  bool keeps_f32(Side, int) const override { return true; }
};

// in: x [N, C/n, ...], this rank's run of the channels; out: [N, C, ...], those of all n ranks in their order.
struct GatherChannels final : Exchange {
  GatherChannels() { axis = Axis::tensor; }

  std::string_view name() const override { return "gather_channels"; }
  LayoutRule layout_rule() const override { return LayoutRule::gathers_channels; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return name_of(axis); }
  double sent_bytes(double, double out, double among) const override { return (among - 1) / among * out; }
  bool takes_any_type() const override { return true; }
};

// A value that goes from one stage to another.
struct StageMessage : Exchange {
  int stage = 0;  // the other one
  int tag = 0;
  int route = 0;  // from one part of the network to another: its messages are received in the order they are sent

  StageMessage() { axis = Axis::pipeline; }
  bool is_message() const override { return true; }
  LayoutRule layout_rule() const override { return LayoutRule::message; }
  bool may_run_twice() const override { return false; }
  bool takes_any_type() const override { return true; }
};

// in: x. The value leaves for another stage. Messages of one tag arrive in the order they were sent. Without copies x's
// memory is left alone until the other stage has it: an activation's is, since its micro-batch comes back only after
// that. A gradient's may be wanted by the next micro-batch before the stage that waits for it comes to receive it: up
// to `copies` of them wait on their own.
struct Send final : StageMessage {
  int copies = 0;

  std::string_view name() const override { return "send"; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return fmt::format("to stage {}", stage); }
  double sent_bytes(double in, double, double) const override { return in; }
};

// out: x, as the other stage sent it.
struct Receive final : StageMessage {
  std::string_view name() const override { return "receive"; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return fmt::format("from stage {}", stage); }
  double sent_bytes(double, double, double) const override { return 0; }
};

}  // namespace trifold
