// Zero-bubble H2 (Qi et al. 2024): twice the micro-batches of H1 under way, so that a stage that has begun does not
// wait when forward work, input gradients and weight gradients cost the same.
#include <algorithm>

#include "parallel/pipeline/pipeline_timeline.h"
#include "parallel/pipeline/schedules/orders.h"

namespace trifold {
namespace {

int most_held(const Pipeline& pipeline) {
  return 2 * pipeline.stages - 1;
}

const RegisterSchedule register_zero_bubble_h2(
    {.name = "zero-bubble-h2",
     .help = "more micro-batches under way before the first goes backward: no gap when F = B = W",
     .position = 50,
     .splits_backward = true,
     .actions =
         [](const Pipeline& pipeline, int stage) {
           return fill_alternate_empty(
               pipeline, LateWeightGradients{.filling = 2 * (pipeline.stages - stage) - 1, .waiting = 2 * stage});
         },
     // What is left is the way of the first micro-batch to the last stage.
     .bubble =
         [](const Pipeline& pipeline, const StageCost& cost) {
           return pipeline.micro_batches < most_held(pipeline)
                      ? std::nullopt
                      : std::optional((pipeline.stages - 1) * cost.forward / (pipeline.micro_batches * cost.sum()));
         },
     .held = [](const Pipeline& pipeline, int) { return std::min(pipeline.micro_batches, most_held(pipeline)); }});

}  // namespace
}  // namespace trifold
