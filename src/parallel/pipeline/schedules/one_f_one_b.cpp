// 1F1B (Narayanan et al. 2019, PipeDream-Flush): the bubble of GPipe with the activations of at most p micro-batches.
#include <algorithm>

#include "parallel/pipeline/pipeline_timeline.h"
#include "parallel/pipeline/schedules/orders.h"

namespace trifold {
namespace {

const RegisterSchedule register_one_f_one_b(
    {.name = "1f1b",
     .help = "backward as early as possible: a stage holds as few micro-batches as there are stages from it on",
     .position = 20,
     .actions = [](const Pipeline& pipeline,
                   int stage) { return fill_alternate_empty(pipeline, pipeline.stages - 1 - stage); },
     .bubble = [](const Pipeline& pipeline, const StageCost&) { return std::optional(bubble_of_filling(pipeline)); },
     .held = [](const Pipeline& pipeline,
                int stage) { return std::min(pipeline.micro_batches, pipeline.stages - stage); }});

}  // namespace
}  // namespace trifold
