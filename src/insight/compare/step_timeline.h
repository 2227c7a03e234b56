// One step of a plan as its ranks did it: who worked on which micro-batch when. What is between the spans is idle.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/train/parallel_model.h"

namespace trifold {

struct TimelineSpan {
  std::string work;  // "F", "B", "W", "U", "comm", "input"; "idle": waiting for another stage
  int micro_batch = 0;
  double begin_ms = 0;  // from the step's first span
  double end_ms = 0;
};

using StepTimeline = std::vector<std::vector<TimelineSpan>>;  // by rank

// Nodes of the same work on the same micro-batch that follow each other are one span.
StepTimeline step_timeline(const ParallelModel& model, std::span<const SpanLog> logs);

}  // namespace trifold
