#include "parallel/pipeline/pipeline_schedule.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {
namespace {

std::set<PipelineSchedule>& schedule_registry() {
  static std::set<PipelineSchedule> schedules;
  return schedules;
}

}  // namespace

RegisterSchedule::RegisterSchedule(const PipelineSchedule& schedule) {
  TRIFOLD_CHECK(
      std::ranges::find(schedule_registry(), schedule.name, &PipelineSchedule::name) == schedule_registry().end(),
      "two pipeline schedules are named '{}'", schedule.name);
  schedule_registry().insert(schedule);
}

const std::set<PipelineSchedule>& pipeline_schedules() {
  return schedule_registry();
}

const PipelineSchedule& pipeline_schedule(std::string_view name) {
  const auto found = std::ranges::find(pipeline_schedules(), name, &PipelineSchedule::name);
  if (found == pipeline_schedules().end())
    fail_input("there is no schedule '{}'; there are {}", name, fmt::join(pipeline_schedule_names(), ", "));
  return *found;
}

std::vector<std::string> pipeline_schedule_names() {
  std::vector<std::string> names;
  for (const PipelineSchedule& schedule : pipeline_schedules()) names.emplace_back(schedule.name);
  return names;
}

std::vector<std::string> chunked_schedule_names() {
  std::vector<std::string> names;
  for (const PipelineSchedule& schedule : pipeline_schedules())
    if (schedule.has_chunks) names.emplace_back(schedule.name);
  return names;
}

void check_pipeline(const Pipeline& pipeline) {
  if (pipeline.stages < 1 || pipeline.micro_batches < 1 || pipeline.chunks < 1)
    fail_input("a pipeline has at least one stage, one micro-batch and one chunk, not {}, {} and {}", pipeline.stages,
               pipeline.micro_batches, pipeline.chunks);
  const PipelineSchedule& schedule = *pipeline.schedule;
  if (!schedule.has_chunks && pipeline.chunks > 1)
    fail_input("the schedule {} has one chunk per stage, not {}; '{}' has several", schedule.name, pipeline.chunks,
               fmt::join(chunked_schedule_names(), "' or '"));
  if (schedule.has_chunks && pipeline.chunks < 2)
    fail_input("the schedule {} needs at least 2 chunks per stage; '{}' has one", schedule.name, kDefaultSchedule);
  if (schedule.in_rounds && pipeline.micro_batches % pipeline.stages != 0)
    fail_input("the schedule {} takes micro-batches in rounds of {} stages: {} do not divide, {} would", schedule.name,
               pipeline.stages, pipeline.micro_batches,
               (pipeline.micro_batches / pipeline.stages + 1) * pipeline.stages);
}

std::vector<Action> actions_of(const Pipeline& pipeline, int stage) {
  check_pipeline(pipeline);
  TRIFOLD_CHECK(stage >= 0 && stage < pipeline.stages, "stage {} of {}", stage, pipeline.stages);
  return pipeline.schedule->actions(pipeline, stage);
}

std::vector<int> staleness_of(const Pipeline& pipeline, int stage) {
  std::vector<int> seen(static_cast<std::size_t>(pipeline.micro_batches));  // updates at forward, then those since
  int updates = 0;
  for (const Action& action : actions_of(pipeline, stage)) {
    int& mine = seen[static_cast<std::size_t>(action.micro_batch)];
    if (action.work == Work::forward)
      mine = updates;
    else
      mine = updates++ - mine;
  }
  return seen;
}

std::string to_string(const Action& action) {
  constexpr std::string_view kLetters = "FBbw";
  std::string text = fmt::format("{}{}", kLetters[static_cast<std::size_t>(action.work)], action.micro_batch);
  if (action.chunk > 0) text += fmt::format(".{}", action.chunk);
  return text;
}

}  // namespace trifold
