// The learning rate of each step: warm-up, then constant, step, cosine or polynomial decay. A pure function, so that a
// resumed run, a simulation and a plot all see the same rates.
#pragma once

#include <cstdint>
#include <vector>

namespace trifold {

enum class ScheduleKind { constant, step, cosine, polynomial };

const char* name_of(ScheduleKind kind);

struct LearningSchedule {
  ScheduleKind kind = ScheduleKind::constant;
  double base_rate = 0.01;
  double final_rate = 0;  // cosine, polynomial: reached after the last step
  double power = 1;       // polynomial

  // step: the rate is multiplied by gamma after every `every_epochs`, or at each of `milestones` (in epochs).
  double every_epochs = 0;
  std::vector<double> milestones = {};
  double gamma = 0.1;

  // The rate rises linearly to base_rate over this long; at most one of the two is above 0.
  double warmup_epochs = 0;
  std::int64_t warmup_steps = 0;

  bool operator==(const LearningSchedule&) const = default;
};

// The rate for step `step` (from 0) of `total_steps`. Decay by cosine and polynomial starts where the warm-up ends;
// epochs of the step schedule count from the start of the run. A step beyond the last has the last one's rate.
double learning_rate(const LearningSchedule& schedule, std::int64_t step, std::int64_t steps_per_epoch,
                     std::int64_t total_steps);

}  // namespace trifold
