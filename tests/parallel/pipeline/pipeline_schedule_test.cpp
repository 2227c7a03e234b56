#include "parallel/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/schedules.h"

namespace trifold {
namespace {

std::string order(const Pipeline& pipeline, int stage) {
  std::string text;
  for (const Action& action : actions_of(pipeline, stage)) text += (text.empty() ? "" : " ") + to_string(action);
  return text;
}

TEST(Schedule, GpipeGoesForwardThenBackward) {
  const Pipeline pipeline{.schedule = &pipeline_schedule("gpipe"), .stages = 2, .micro_batches = 3};
  EXPECT_EQ(order(pipeline, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(order(pipeline, 1), "F0 F1 F2 B0 B1 B2");
}

TEST(Schedule, OneForwardOneBackwardFillsAlternatesAndEmpties) {
  const Pipeline pipeline{.stages = 3, .micro_batches = 4};
  EXPECT_EQ(order(pipeline, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(order(pipeline, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(order(pipeline, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Schedule, FewerMicroBatchesThanStages) {
  EXPECT_EQ(order({.stages = 4, .micro_batches = 2}, 0), "F0 F1 B0 B1");
  EXPECT_EQ(order({.stages = 4, .micro_batches = 1}, 3), "F0 B0");
}

TEST(Schedule, InterleavedTakesRoundsThroughItsChunks) {
  const Pipeline pipeline{.schedule = &pipeline_schedule("interleaved"), .stages = 2, .micro_batches = 4, .chunks = 2};
  EXPECT_EQ(order(pipeline, 0), "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");
  EXPECT_EQ(order(pipeline, 1), "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
}

TEST(Schedule, ZeroBubbleKeepsGradientsOfWeightsForTheEnd) {
  const Pipeline pipeline{.schedule = &pipeline_schedule("zero-bubble"), .stages = 2, .micro_batches = 3};
  EXPECT_EQ(order(pipeline, 0), "F0 F1 b0 w0 F2 b1 w1 b2 w2");
  EXPECT_EQ(order(pipeline, 1), "F0 b0 F1 b1 w0 F2 b2 w1 w2");
}

// Each chunk of each micro-batch: forward, then backward (whole, or input gradient before weight gradient).
TEST(Schedule, EveryStageDoesEachPartOnceAndForwardBeforeBackward) {
  for (const Pipeline& pipeline : test::pipelines_of_schedules())
    for (int stage = 0; stage < pipeline.stages; ++stage) {
      SCOPED_TRACE(test::describe(pipeline) + ", stage " + std::to_string(stage));
      std::map<std::pair<int, int>, std::vector<Work>> done;
      for (const Action& action : actions_of(pipeline, stage))
        done[{action.chunk, action.micro_batch}].push_back(action.work);
      EXPECT_EQ(std::ssize(done), pipeline.chunks * pipeline.micro_batches);
      const std::vector<Work> expected = pipeline.schedule->splits_backward
                                             ? std::vector{Work::forward, Work::input_gradient, Work::weight_gradient}
                                             : std::vector{Work::forward, Work::backward};
      for (const auto& [part, works] : done) {
        EXPECT_TRUE(part.first >= 0 && part.first < pipeline.chunks);
        EXPECT_TRUE(part.second >= 0 && part.second < pipeline.micro_batches);
        EXPECT_EQ(works, expected) << "chunk " << part.first << ", micro-batch " << part.second;
      }
    }
}

TEST(Schedule, EveryOneIsFoundByItsNameAndExplained) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    EXPECT_EQ(&pipeline_schedule(schedule.name), &schedule);
    EXPECT_FALSE(schedule.help.empty()) << schedule.name;
  }
}

// Scripts and the schema show them in this order, whatever the order of their files.
TEST(Schedule, AreListedInAFixedOrder) {
  std::vector<std::string> names = pipeline_schedule_names();
  const std::vector<std::string> first = {"gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-h2", "pipedream"};
  std::erase_if(names, [&](const std::string& name) { return std::ranges::find(first, name) == first.end(); });
  EXPECT_EQ(names, first);
}

TEST(Schedule, ANameIsTakenOnce) {
  EXPECT_THROW(RegisterSchedule({.name = "gpipe", .position = 1000}), Error);
}

std::string refusal(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, RefusesWhatThereIsNot) {
  EXPECT_EQ(refusal([] { pipeline_schedule("2f2b"); }),
            "there is no schedule '2f2b'; there are " + fmt::format("{}", fmt::join(pipeline_schedule_names(), ", ")));
  EXPECT_EQ(refusal([] { check_pipeline({.stages = 2, .micro_batches = 2, .chunks = 2}); }),
            "the schedule 1f1b has one chunk per stage, not 2; 'interleaved' has several");
  EXPECT_EQ(
      refusal([] { check_pipeline({.schedule = &pipeline_schedule("interleaved"), .stages = 4, .micro_batches = 4}); }),
      "the schedule interleaved needs at least 2 chunks per stage; '1f1b' has one");
  EXPECT_EQ(
      refusal([] {
        check_pipeline({.schedule = &pipeline_schedule("interleaved"), .stages = 4, .micro_batches = 6, .chunks = 2});
      }),
      "the schedule interleaved takes micro-batches in rounds of 4 stages: 6 do not divide, 8 would");
  EXPECT_EQ(refusal([] { check_pipeline({.stages = 0}); }),
            "a pipeline has at least one stage, one micro-batch and one chunk, not 0, 1 and 1");
}

}  // namespace
}  // namespace trifold
