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

// in: x; out: the sum of every rank's x, in the order of ranks. `span`: only ranks that lie in one run of this many
// (0: all) of the axis's `ranks` are added up. Averaging is the loss's business.
struct AllReduce final : Op {
  Axis axis = Axis::data;
  int span = 0;
  int ranks = 0;

  std::string_view name() const override { return "all_reduce"; }
  std::string attributes() const override {
    return fmt::format("{}{}", name_of(axis), span > 0 ? fmt::format(" span {}", span) : "");
  }
  bool keeps_f32(Side, int) const override { return true; }
  std::vector<int> in_place(int) const override { return {0}; }
};

// in: x; out: every rank's x in the order of ranks, stacked along the first dimension.
struct AllGather final : Op {
  Axis axis = Axis::data;

  std::string_view name() const override { return "all_gather"; }
  std::string attributes() const override { return name_of(axis); }
  bool keeps_f32(Side, int) const override { return true; }
};

// in: x [N, C/n, ...], this rank's run of the channels; out: [N, C, ...], those of all n ranks in their order.
struct GatherChannels final : Op {
  Axis axis = Axis::tensor;

  std::string_view name() const override { return "gather_channels"; }
  std::string attributes() const override { return name_of(axis); }
  bool takes_any_type() const override { return true; }
};

// in: x. The value leaves for another stage. Messages of one tag arrive in the order they were sent. Without copies x's
// memory is left alone until the other stage has it: an activation's is, since its micro-batch comes back only after
// that. A gradient's may be wanted by the next micro-batch before the stage that waits for it comes to receive it: up
// to `copies` of them wait on their own.
struct Send final : Op {
  int stage = 0;
  int tag = 0;
  int copies = 0;

  std::string_view name() const override { return "send"; }
  std::string attributes() const override { return fmt::format("to stage {}", stage); }
  bool takes_any_type() const override { return true; }
};

// out: x, as the other stage sent it.
struct Receive final : Op {
  int stage = 0;
  int tag = 0;

  std::string_view name() const override { return "receive"; }
  std::string attributes() const override { return fmt::format("from stage {}", stage); }
  bool takes_any_type() const override { return true; }
};

}  // namespace trifold
