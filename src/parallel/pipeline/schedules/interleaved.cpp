// Interleaved 1F1B (Narayanan et al. 2021, Megatron-LM): each stage has several runs of layers, one after every p-th of
// the network. The bubble shrinks by their number, and messages grow by it.
#include <algorithm>

#include "parallel/pipeline/pipeline_timeline.h"
#include "parallel/pipeline/schedules/orders.h"

namespace trifold {
namespace {

int filling_of(const Pipeline& pipeline, int stage) {
  return 2 * (pipeline.stages - 1 - stage) + (pipeline.chunks - 1) * pipeline.stages;
}

const RegisterSchedule register_interleaved(
    {.name = "interleaved",
     .help = "1f1b with several chunks of layers per stage: a smaller bubble for more messages",
     .position = 30,
     .has_chunks = true,
     .in_rounds = true,
     .actions = [](const Pipeline& pipeline,
                   int stage) { return fill_alternate_empty(pipeline, filling_of(pipeline, stage)); },
     .bubble = [](const Pipeline& pipeline, const StageCost&) { return std::optional(bubble_of_filling(pipeline)); },
     .held =
         [](const Pipeline& pipeline, int stage) {
           return std::min(pipeline.micro_batches * pipeline.chunks, filling_of(pipeline, stage) + 1);
         }});

}  // namespace
}  // namespace trifold
