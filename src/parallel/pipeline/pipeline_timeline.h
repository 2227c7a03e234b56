// A pipeline's schedule played against the costs of its work: when each stage does what, how long a step takes, how
// much of it is waiting, and how many micro-batches' activations a stage must hold.
#pragma once

#include <string>
#include <vector>

#include "parallel/pipeline/pipeline_schedule.h"

namespace trifold {

// Of one micro-batch on one stage, all of its chunks together, in any unit of time.
struct StageCost {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double repeated_forward = 0;  // before the input's gradient, by a stage that recomputes: it waits for no other stage

  double sum() const { return forward + input_gradient + weight_gradient + repeated_forward; }
};

struct TimedAction {
  Action action;
  double begin = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<TimedAction>> stages;
  std::vector<int> held;  // a stage's most micro-batches (of a chunk) between forward and the end of backward
  double total = 0;
  double busiest = 0;  // work of the stage that has most

  double bubble() const { return total / busiest - 1; }  // waiting, to that work
};

// One cost a stage; `transfer` is the time from a stage's end to the next one's earliest begin.
Timeline play(const Pipeline& pipeline, const std::vector<StageCost>& costs, double transfer = 0);

// A line a stage, `unit` of time a column: "F0 F1 ..", forward and backward by micro-batch, '.' for waiting.
std::string to_text(const Timeline& timeline, double unit);

}  // namespace trifold
