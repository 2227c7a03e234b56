#include "support/schedules.h"

#include <algorithm>

#include <fmt/format.h>

namespace trifold::test {

std::vector<Pipeline> pipelines_of_schedules() {
  std::vector<Pipeline> pipelines;
  for (const PipelineSchedule& schedule : pipeline_schedules())
    for (const int chunks : schedule.has_chunks ? std::vector{2, 3} : std::vector{1})
      for (int stages = 1; stages <= 4; ++stages)
        for (int micro_batches = 1; micro_batches <= 9; ++micro_batches)
          if (!schedule.in_rounds || micro_batches % stages == 0)
            pipelines.push_back({&schedule, stages, micro_batches, chunks});
  return pipelines;
}

std::string describe(const Pipeline& pipeline) {
  return fmt::format("{}: {} stages, {} micro-batches, {} chunks", pipeline.schedule->name, pipeline.stages,
                     pipeline.micro_batches, pipeline.chunks);
}

std::vector<PlanConfig> plans_of_schedules(std::int64_t stages) {
  constexpr std::int64_t kMicroBatches = 4;
  std::vector<PlanConfig> plans;
  for (const PipelineSchedule& schedule : pipeline_schedules())
    if (!schedule.in_rounds || kMicroBatches % stages == 0)
      plans.push_back({.pp = stages,
                       .schedule = std::string(schedule.name),
                       .micro_batches = kMicroBatches,
                       .chunks = schedule.has_chunks ? 2 : 1});
  return plans;
}

std::vector<PlanConfig> folding_plans_of_schedules(std::int64_t stages) {
  std::vector<PlanConfig> plans = plans_of_schedules(stages);
  std::erase_if(plans,
                [](const PlanConfig& plan) { return pipeline_schedule(plan.schedule).updates_every_micro_batch; });
  return plans;
}

std::string test_name(const PlanConfig& plan) {
  std::string name = fmt::format("pp{}_{}", plan.pp, plan.schedule);
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace trifold::test
