#include "parallel/pipeline/pipeline_schedule.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

std::string order(const Pipeline& pipeline, int stage) {
  std::string text;
  for (const Action& action : actions_of(pipeline, stage)) text += (text.empty() ? "" : " ") + to_string(action);
  return text;
}

TEST(Schedule, GpipeGoesForwardThenBackward) {
  const Pipeline pipeline{.kind = PipelineSchedule::gpipe, .stages = 2, .micro_batches = 3};
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
  const Pipeline pipeline{.kind = PipelineSchedule::interleaved, .stages = 2, .micro_batches = 4, .chunks = 2};
  EXPECT_EQ(order(pipeline, 0), "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");
  EXPECT_EQ(order(pipeline, 1), "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
}

TEST(Schedule, ZeroBubbleKeepsGradientsOfWeightsForTheEnd) {
  const Pipeline pipeline{.kind = PipelineSchedule::zero_bubble_h1, .stages = 2, .micro_batches = 3};
  EXPECT_EQ(order(pipeline, 0), "F0 F1 b0 w0 F2 b1 w1 b2 w2");
  EXPECT_EQ(order(pipeline, 1), "F0 b0 F1 b1 w0 F2 b2 w1 w2");
}

TEST(Schedule, EveryStageDoesEachPartOnce) {
  for (int kind = 0; kind < static_cast<int>(pipeline_schedule_names().size()); ++kind) {
    Pipeline pipeline{.kind = static_cast<PipelineSchedule>(kind), .stages = 4, .micro_batches = 8};
    if (pipeline.kind == PipelineSchedule::interleaved) pipeline.chunks = 3;
    const int works = pipeline.splits_backward() ? 3 : 2;
    for (int stage = 0; stage < pipeline.stages; ++stage) {
      const std::vector<Action> actions = actions_of(pipeline, stage);
      EXPECT_EQ(std::ssize(actions), works * pipeline.micro_batches * pipeline.chunks);
      for (std::size_t i = 0; i < actions.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) EXPECT_NE(actions[i], actions[j]) << pipeline_schedule_names()[kind];
    }
  }
}

TEST(Schedule, NamesAreParsed) {
  for (std::size_t i = 0; i < pipeline_schedule_names().size(); ++i)
    EXPECT_EQ(parse_pipeline_schedule(pipeline_schedule_names()[i]), static_cast<PipelineSchedule>(i));
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
  EXPECT_EQ(refusal([] { parse_pipeline_schedule("2f2b"); }),
            "there is no schedule '2f2b'; there are gpipe, 1f1b, interleaved, zero-bubble, zero-bubble-h2, pipedream");
  EXPECT_EQ(refusal([] { check_pipeline({.stages = 2, .micro_batches = 2, .chunks = 2}); }),
            "the schedule 1f1b has one chunk a stage, not 2; 'interleaved' has several");
  EXPECT_EQ(refusal([] { check_pipeline({.kind = PipelineSchedule::interleaved, .stages = 4, .micro_batches = 4}); }),
            "the schedule interleaved needs at least 2 chunks a stage; '1f1b' has one");
  EXPECT_EQ(refusal([] {
              check_pipeline({.kind = PipelineSchedule::interleaved, .stages = 4, .micro_batches = 6, .chunks = 2});
            }),
            "the schedule interleaved takes micro-batches in rounds of 4 stages: 6 do not divide, 8 would");
  EXPECT_EQ(refusal([] { check_pipeline({.stages = 0}); }),
            "a pipeline has at least one stage, one micro-batch and one chunk, not 0, 1 and 1");
}

}  // namespace
}  // namespace trifold
