// Where the time of a step goes: parts that add up, and the bubble that a schedule makes of the stages' work.
#include "insight/work/rank_work.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

constexpr auto kForward = static_cast<std::size_t>(Phase::forward);
constexpr auto kInput = static_cast<std::size_t>(Phase::backward_input);
constexpr auto kWeight = static_cast<std::size_t>(Phase::backward_weight);
constexpr auto kUpdate = static_cast<std::size_t>(Phase::update);

RankWork some_work() {
  RankWork work;
  work.kernels = {2, 2, 2, 0.5};
  work.collectives = {0.1, 0.2, 0, 0.3};
  work.accumulating = 0.25;
  work.messages = 1;
  work.copying = 0.125;
  work.idle = 0.5;
  return work;
}

TEST(StepSplit, SaysWhatATimeWasSpentOn) {
  const StepSplit split = split_of(20, 1.5, 2, std::vector<RankWork>{some_work()});
  EXPECT_DOUBLE_EQ(split.exposed_comm, 0.6 / 2) << "collectives of all phases";
  EXPECT_DOUBLE_EQ(split.bubble, 1.5 / 2) << "waiting for a stage, and for the others' begin and end";
  EXPECT_DOUBLE_EQ(split.input, 1.625 / 2) << "the loader, and copying";
  EXPECT_DOUBLE_EQ(split.optimizer, 0.75 / 2) << "the update, and summing up micro-batches";
  EXPECT_DOUBLE_EQ(split.sum(), 10) << "compute is the rest";
}

TEST(StepSplit, IsTheMeanOfTheRanks) {
  RankWork waits;
  waits.idle = 4;
  const StepSplit split = split_of(10, 0, 1, std::vector<RankWork>{RankWork{}, waits});
  EXPECT_DOUBLE_EQ(split.bubble, 2);
  EXPECT_DOUBLE_EQ(split.compute, 8);
}

TEST(RankWork, OfATurnIsWhatWasAdded) {
  const RankWork before = some_work();
  RankWork after = before;
  after.kernels[kForward] += 1;
  after.collectives[kUpdate] += 2;
  after.accumulating += 3;
  after.repeating += 4;
  after.messages += 5;
  after.copying += 6;
  after.idle += 7;
  const RankWork turn = after.since(before);
  EXPECT_DOUBLE_EQ(turn.kernels[kForward], 1);
  EXPECT_DOUBLE_EQ(turn.kernels[kWeight], 0);
  EXPECT_DOUBLE_EQ(turn.collectives[kUpdate], 2);
  EXPECT_DOUBLE_EQ(turn.accumulating, 3);
  EXPECT_DOUBLE_EQ(turn.repeating, 4);
  EXPECT_DOUBLE_EQ(turn.messages, 5);
  EXPECT_DOUBLE_EQ(turn.copying, 6);
  EXPECT_DOUBLE_EQ(turn.idle, 7);
}

RankWork stage_work(double forward, double input_gradient, double weight_gradient, double update) {
  RankWork work;
  work.kernels[kForward] = forward;
  work.kernels[kInput] = input_gradient;
  work.kernels[kWeight] = weight_gradient;
  work.kernels[kUpdate] = update;
  return work;
}

// FACTS: (p - 1) / m of the work.
TEST(Forecast, OfEvenStagesIsTheFormula) {
  for (const int stages : {2, 4}) {
    const Pipeline pipeline{.stages = stages, .micro_batches = 8};
    const std::vector<RankWork> ranks(static_cast<std::size_t>(stages), stage_work(8, 8, 8, 3));
    const PipelineForecast found = forecast(pipeline, {.pipeline = stages}, 1, ranks);
    EXPECT_NEAR(found.bubble, (stages - 1) / 8.0 * 24, 1e-9);
    EXPECT_EQ(found.stage_seconds, std::vector<double>(static_cast<std::size_t>(stages), 27));
  }
}

// Steps and replicas are averaged over; a stage's ranks need not be neighbours.
TEST(Forecast, IsOfOneStepAndOneReplica) {
  const Pipeline pipeline{.stages = 2, .micro_batches = 4};
  const std::vector<RankWork> one = {stage_work(4, 4, 4, 1), stage_work(8, 8, 8, 1)};
  const std::vector<RankWork> two = {stage_work(10, 10, 10, 3), stage_work(20, 20, 20, 3), stage_work(14, 14, 14, 3),
                                     stage_work(28, 28, 28, 3)};
  const PipelineForecast single = forecast(pipeline, {.pipeline = 2}, 1, one);
  const PipelineForecast both = forecast(pipeline, {.data = 2, .pipeline = 2}, 3, two);
  ASSERT_EQ(both.stage_seconds.size(), 2u);
  EXPECT_NEAR(both.stage_seconds[0], single.stage_seconds[0], 1e-9);
  EXPECT_NEAR(both.stage_seconds[1], single.stage_seconds[1], 1e-9);
  EXPECT_NEAR(both.bubble, single.bubble, 1e-9);
}

// The first stage waits for the slow second one in every micro-batch.
TEST(Forecast, CountsUnevenStages) {
  const Pipeline pipeline{.stages = 2, .micro_batches = 8};
  const std::vector<RankWork> even = {stage_work(8, 8, 8, 0), stage_work(8, 8, 8, 0)};
  const std::vector<RankWork> uneven = {stage_work(4, 4, 4, 0), stage_work(12, 12, 12, 0)};
  EXPECT_GT(forecast(pipeline, {.pipeline = 2}, 1, uneven).bubble,
            2 * forecast(pipeline, {.pipeline = 2}, 1, even).bubble);
}

// What a stage repeats is part of its backward work, but waits for no gradient.
TEST(Forecast, LetsStagesRepeatForwardWorkWhileTheyWait) {
  const Pipeline pipeline{.stages = 2, .micro_batches = 1};
  RankWork repeats = stage_work(1, 2, 1, 0);
  repeats.repeating = 1;
  const PipelineForecast found =
      forecast(pipeline, {.pipeline = 2}, 1, std::vector<RankWork>{repeats, stage_work(1, 1, 1, 0)});
  EXPECT_EQ(found.stage_seconds, (std::vector<double>{4, 3}));
  EXPECT_NEAR(found.bubble, (2 + 3) / 2.0, 1e-9) << "6 in all, as without";
}

// A stage that ends early updates early, and waits for the others after it.
TEST(Forecast, LetsEveryStageUpdateWhenItIsDone) {
  const Pipeline pipeline{.stages = 2, .micro_batches = 1};
  const std::vector<RankWork> ranks = {stage_work(1, 1, 1, 0), stage_work(1, 1, 1, 2)};
  // The second stage is done at 4 and has updated at 6, as the first gets its gradient at 4 and ends at 6.
  EXPECT_NEAR(forecast(pipeline, {.pipeline = 2}, 1, ranks).bubble, (3 + 1) / 2.0, 1e-9);
}

}  // namespace
}  // namespace trifold
