// Rates worked out by hand.
#include "runtime/config/learning_schedule.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

constexpr std::int64_t kStepsPerEpoch = 10;
constexpr std::int64_t kTotalSteps = 100;

double rate(const LearningSchedule& schedule, std::int64_t step) {
  return learning_rate(schedule, step, kStepsPerEpoch, kTotalSteps);
}

TEST(Schedule, ConstantStays) {
  const LearningSchedule schedule{.base_rate = 0.5};
  EXPECT_DOUBLE_EQ(rate(schedule, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate(schedule, 99), 0.5);
}

TEST(Schedule, AnEndlessWarmUpStaysNearNothing) {
  const LearningSchedule schedule{.kind = ScheduleKind::cosine, .base_rate = 1, .warmup_epochs = 1e300};
  EXPECT_GT(rate(schedule, 99), 0);
  EXPECT_LT(rate(schedule, 99), 1e-10);
}

TEST(Schedule, WarmUpRisesInEqualStepsFromAboveZero) {
  const LearningSchedule by_steps{.base_rate = 1, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(rate(by_steps, 0), 0.25);
  EXPECT_DOUBLE_EQ(rate(by_steps, 3), 1);
  EXPECT_DOUBLE_EQ(rate(by_steps, 4), 1);
  const LearningSchedule by_epochs{.base_rate = 1, .warmup_epochs = 2};
  EXPECT_DOUBLE_EQ(rate(by_epochs, 9), 0.5);
  EXPECT_DOUBLE_EQ(rate(by_epochs, 19), 1);
}

TEST(Schedule, StepCutsEveryFewEpochsOrAtMilestones) {
  const LearningSchedule every{.kind = ScheduleKind::step, .base_rate = 1, .every_epochs = 3, .gamma = 0.5};
  EXPECT_DOUBLE_EQ(rate(every, 29), 1);
  EXPECT_DOUBLE_EQ(rate(every, 30), 0.5);
  EXPECT_DOUBLE_EQ(rate(every, 60), 0.25);
  const LearningSchedule at{.kind = ScheduleKind::step, .base_rate = 1, .milestones = {2, 5}, .gamma = 0.1};
  EXPECT_DOUBLE_EQ(rate(at, 19), 1);
  EXPECT_DOUBLE_EQ(rate(at, 20), 0.1);
  EXPECT_NEAR(rate(at, 50), 0.01, 1e-15);
}

TEST(Schedule, CosineFallsFromTheEndOfTheWarmUpToTheFinalRate) {
  const LearningSchedule schedule{.kind = ScheduleKind::cosine, .base_rate = 1, .final_rate = 0.2, .warmup_steps = 20};
  EXPECT_DOUBLE_EQ(rate(schedule, 20), 1);
  EXPECT_NEAR(rate(schedule, 60), 0.6, 1e-12);  // half-way
  EXPECT_GT(rate(schedule, 99), 0.2);
  EXPECT_LT(rate(schedule, 99), 0.201);
}

TEST(Schedule, PolynomialOfPowerOneIsALine) {
  LearningSchedule schedule{.kind = ScheduleKind::polynomial, .base_rate = 1, .final_rate = 0};
  EXPECT_DOUBLE_EQ(rate(schedule, 0), 1);
  EXPECT_DOUBLE_EQ(rate(schedule, 75), 0.25);
  schedule.power = 2;
  EXPECT_DOUBLE_EQ(rate(schedule, 50), 0.25);
}

TEST(Schedule, BeyondTheLastStepTheRateIsTheLastOne) {
  const LearningSchedule schedule{.kind = ScheduleKind::cosine, .base_rate = 1};
  EXPECT_DOUBLE_EQ(rate(schedule, 1000), rate(schedule, 99));
}

TEST(Schedule, AWarmUpLongerThanTheRunOnlyRises) {
  const LearningSchedule schedule{.kind = ScheduleKind::cosine, .base_rate = 1, .warmup_steps = 200};
  EXPECT_DOUBLE_EQ(rate(schedule, 99), 0.5);
}

}  // namespace
}  // namespace trifold
