#include <algorithm>

#include "kernels/ops/optimizer.h"

namespace trifold {

LossScaleStep loss_scale_step(const OptimizerUpdate& op, float* state, bool all_finite, const StepContext& context) {
  LossScaleStep step;
  step.updates = context.updates;
  if (!op.scaling) return step;
  float scale = state[0];
  float good = state[1];
  float skipped = state[2];
  step.unscale = 1 / static_cast<double>(scale);
  step.skip = !all_finite;
  if (step.skip) {
    scale = std::max(scale / 2, 1.0f);
    good = 0;
    skipped += 1;
  } else if (++good >= static_cast<float>(op.scaling->growth_interval)) {
    scale = std::min(scale * 2, static_cast<float>(op.scaling->largest));
    good = 0;
  }
  step.updates -= static_cast<std::int64_t>(skipped);
  if (op.moves_scale) {
    state[0] = scale;
    state[1] = good;
    state[2] = skipped;
  }
  return step;
}

}  // namespace trifold
