// Eager 1F1B (Zhuang et al. 2023, "On Optimizing the Communication of Model Parallelism"): 1F1B that runs almost twice
// as many forwards ahead, so that a message has a whole piece of work to travel during which neither stage waits for
// it. It costs the activations of as many more micro-batches.
#include <algorithm>

#include "parallel/pipeline/pipeline_timeline.h"
#include "parallel/pipeline/schedules/orders.h"

namespace trifold {
namespace {

// Forwards before the first backward.
int eager_forwards(const Pipeline& pipeline, int stage) {
  return 2 * (pipeline.stages - stage) - 1;
}

const RegisterSchedule register_eager_1f1b(
    {.name = "eager-1f1b",
     .help = "1f1b with more forwards ahead: messages travel during other work, for the memory of more micro-batches",
     .position = 25,
     .actions = [](const Pipeline& pipeline,
                   int stage) { return fill_alternate_empty(pipeline, eager_forwards(pipeline, stage) - 1); },
     .bubble = [](const Pipeline& pipeline, const StageCost&) { return std::optional(bubble_of_filling(pipeline)); },
     .held = [](const Pipeline& pipeline,
                int stage) { return std::min(pipeline.micro_batches, eager_forwards(pipeline, stage)); }});

}  // namespace
}  // namespace trifold
