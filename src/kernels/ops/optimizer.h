// Updates over the flat buffers that hold all parameters, gradients and optimiser state of a rank, in one pass.
#pragma once

#include <fmt/format.h>

#include "core/step_context.h"
#include "kernels/op.h"

namespace trifold {

// A run of the flat buffers that is treated alike: one parameter.
struct ParameterSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool decay = true;  // weight decay applies (biases and batch norm may be exempt); LARS adapts its rate too
};

enum class OptimizerKind { sgd, adam, adamw, lars, adagrad };

struct OptimizerArgs {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double trust = 0.001;            // LARS
  double initial_accumulator = 0;  // Adagrad: added to the sum of squares
  double clip_norm = 0;            // gradients are scaled down to this global norm; 0: not
};

// Gradients in 16 bits would vanish: they are computed of the loss times a scale and divided by it in the update. When
// one of them is not finite, the update is skipped and the scale halved; after `growth_interval` good updates in a row
// it doubles. The state is f32 [4]: the scale, the good updates in a row, the updates skipped so far, and a spare.
struct LossScaling {
  double initial = 65536;
  double largest = 16777216;
  std::int64_t growth_interval = 2000;

  bool operator==(const LossScaling&) const = default;
};
inline constexpr std::int64_t kLossScaleFloats = 4;

// in: parameters [P], gradients [P], state... (sgd with momentum, lars, adagrad: 1; adam: 2; plain sgd: none), [loss
// scale], [squares]; out: parameters, state..., [loss scale] in place, then report f64 [1]: the global norm of the
// gradients (0 unless clipping; of the unscaled ones). The learning rate and the number of updates come with the step;
// updates that were skipped do not count for adam's corrections.
struct OptimizerUpdate final : Op {
  OptimizerArgs args;
  std::optional<LossScaling> scaling;
  std::vector<ParameterSegment> segments;
  // The squares of all gradients come from outside (GradientSquares): these are some of them only.
  bool squares_given = false;
  // Of several updates of one step, the last moves the loss scale on.
  bool moves_scale = true;

  bool needs_squares() const { return scaling || args.clip_norm > 0; }

  int state_count() const {
    if (args.kind == OptimizerKind::adam || args.kind == OptimizerKind::adamw) return 2;
    if (args.kind == OptimizerKind::lars || args.kind == OptimizerKind::adagrad) return 1;
    return args.momentum != 0 ? 1 : 0;
  }
  std::string_view name() const override { return "optimizer.update"; }
  OpKind kind() const override { return OpKind::update; }
  LayoutRule layout_rule() const override { return LayoutRule::as_given; }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override {
    return 5.0 * static_cast<double>(in[0].elements());
  }
  std::vector<int> in_place(int out) const override {
    if (out == 0) return {0};
    return out <= state_count() + (scaling ? 1 : 0) ? std::vector<int>{out + 1} : std::vector<int>{};
  }
};

// in: gradients [P]; out: f32 [1], the sum of the segments' squares: infinite or not a number where a gradient is, or
// where it does not fit.
struct GradientSquares final : Op {
  std::vector<ParameterSegment> segments;

  std::string_view name() const override { return "optimizer.squares"; }
  OpKind kind() const override { return OpKind::update; }
  LayoutRule layout_rule() const override { return LayoutRule::as_given; }
  double flops(std::span<const TensorDesc> in, std::span<const TensorDesc>) const override {
    return 2.0 * static_cast<double>(in[0].elements());
  }
};

// What the loss scale says about one update, on the host. `state` (null without scaling) is read and, if the op moves
// it, moved on.
struct LossScaleStep {
  bool skip = false;
  double unscale = 1;        // gradients are to be multiplied by this
  std::int64_t updates = 0;  // applied so far, this one included
};
LossScaleStep loss_scale_step(const OptimizerUpdate& op, float* state, bool all_finite, const StepContext& context);

// Gradient accumulation over micro-batches. in: sum [P], gradients [P]; out: sum, in place. first: sum = gradients.
struct AccumulateGradients final : Op {
  bool first = false;

  std::string_view name() const override { return "optimizer.accumulate"; }
  OpKind kind() const override { return OpKind::update; }
  LayoutRule layout_rule() const override { return LayoutRule::as_given; }
  std::vector<int> in_place(int) const override { return {0}; }
};

}  // namespace trifold
