// GPipe (Huang et al. 2019): the simplest order, which holds the activations of the whole batch.
#include "parallel/pipeline/pipeline_timeline.h"
#include "parallel/pipeline/schedules/orders.h"

namespace trifold {
namespace {

const RegisterSchedule register_gpipe(
    {.name = "gpipe",
     .help = "every micro-batch forward, then every one backward",
     .position = 10,
     .actions =
         [](const Pipeline& pipeline, int) {
           std::vector<Action> actions;
           for (const Work work : {Work::forward, Work::backward})
             for (int i = 0; i < pipeline.micro_batches; ++i) actions.push_back({work, i});
           return actions;
         },
     .bubble = [](const Pipeline& pipeline, const StageCost&) { return std::optional(bubble_of_filling(pipeline)); },
     .held = [](const Pipeline& pipeline, int) { return pipeline.micro_batches; }});

}  // namespace
}  // namespace trifold
