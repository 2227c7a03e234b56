#include "runtime/config/learning_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace trifold {
namespace {

constexpr double kMostSteps = 1e15;  // no run is as long: a warm-up that is never ends

// How often the rate was cut when `epoch` (with its fraction) has passed.
double cuts_until(const LearningSchedule& schedule, double epoch) {
  if (schedule.every_epochs > 0) return std::floor(epoch / schedule.every_epochs);
  return static_cast<double>(std::count_if(schedule.milestones.begin(), schedule.milestones.end(),
                                           [&](double milestone) { return milestone <= epoch; }));
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::constant:
      return "constant";
    case ScheduleKind::step:
      return "step";
    case ScheduleKind::cosine:
      return "cosine";
    case ScheduleKind::polynomial:
      return "polynomial";
  }
  return "?";
}

double learning_rate(const LearningSchedule& schedule, std::int64_t step, std::int64_t steps_per_epoch,
                     std::int64_t total_steps) {
  TRIFOLD_CHECK(step >= 0 && steps_per_epoch > 0 && total_steps > 0, "step {} of {}, {} an epoch", step, total_steps,
                steps_per_epoch);
  step = std::min(step, total_steps - 1);
  const auto epoch_steps = static_cast<double>(steps_per_epoch);
  const std::int64_t warmup = schedule.warmup_steps > 0
                                  ? schedule.warmup_steps
                                  : std::llround(std::min(schedule.warmup_epochs * epoch_steps, kMostSteps));
  if (step < warmup) return schedule.base_rate * static_cast<double>(step + 1) / static_cast<double>(warmup);

  const double left = static_cast<double>(total_steps - step) / static_cast<double>(total_steps - warmup);  // 1 .. >0
  const double range = schedule.base_rate - schedule.final_rate;
  switch (schedule.kind) {
    case ScheduleKind::constant:
      break;
    case ScheduleKind::step:
      return schedule.base_rate *
             std::pow(schedule.gamma, cuts_until(schedule, static_cast<double>(step) / epoch_steps));
    case ScheduleKind::cosine:
      return schedule.final_rate + range * 0.5 * (1 + std::cos(std::numbers::pi * (1 - left)));
    case ScheduleKind::polynomial:
      return schedule.final_rate + range * std::pow(left, schedule.power);
  }
  return schedule.base_rate;
}

}  // namespace trifold
