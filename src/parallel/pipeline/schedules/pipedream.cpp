// PipeDream (Narayanan et al. 2019): 1F1B in which every micro-batch is an update, so that no batch ends with a bubble.
#include <algorithm>

#include "parallel/pipeline/pipeline_timeline.h"
#include "parallel/pipeline/schedules/orders.h"

namespace trifold {
namespace {

const RegisterSchedule register_pipedream(
    {.name = "pipedream",
     .help = "1f1b in which every micro-batch is an update: none waits, but gradients are of older weights",
     .position = 60,
     .updates_every_micro_batch = true,
     .actions = [](const Pipeline& pipeline,
                   int stage) { return fill_alternate_empty(pipeline, pipeline.stages - 1 - stage); },
     .bubble = [](const Pipeline& pipeline, const StageCost&) { return std::optional(bubble_of_filling(pipeline)); },
     .held = [](const Pipeline& pipeline,
                int stage) { return std::min(pipeline.micro_batches, pipeline.stages - stage); }});

}  // namespace
}  // namespace trifold
