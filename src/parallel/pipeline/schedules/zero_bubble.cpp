// Zero-bubble H1 (Qi et al. 2024): 1F1B that fills part of the bubble with weight gradients, for which no stage waits.
#include <algorithm>

#include "parallel/pipeline/pipeline_timeline.h"
#include "parallel/pipeline/schedules/orders.h"

namespace trifold {
namespace {

const RegisterSchedule register_zero_bubble(
    {.name = "zero-bubble",
     .help = "1f1b with weight gradients kept for the gaps; no more memory than the first stage of 1f1b",
     .position = 40,
     .splits_backward = true,
     .actions =
         [](const Pipeline& pipeline, int stage) {
           return fill_alternate_empty(pipeline,
                                       LateWeightGradients{.filling = pipeline.stages - stage, .waiting = stage});
         },
     .bubble =
         [](const Pipeline& pipeline, const StageCost& cost) {
           const double gap = cost.forward + cost.input_gradient - cost.weight_gradient;
           return pipeline.micro_batches < pipeline.stages
                      ? std::nullopt
                      : std::optional((pipeline.stages - 1) * gap / (pipeline.micro_batches * cost.sum()));
         },
     .held = [](const Pipeline& pipeline, int) { return std::min(pipeline.micro_batches, pipeline.stages); }});

}  // namespace
}  // namespace trifold
