// Played schedules against the closed formulas: bubble (waiting to work) and micro-batches held, over p = 2..8 stages
// and m = 1..32 micro-batches.
#include "parallel/pipeline/pipeline_timeline.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace trifold {
namespace {

constexpr int kMostStages = 8;
constexpr int kMostMicroBatches = 32;
constexpr double kRounding = 1e-9;

Timeline play_even(const Pipeline& pipeline, const StageCost& cost) {
  return play(pipeline, std::vector<StageCost>(static_cast<std::size_t>(pipeline.stages), cost));
}

template <class Check>
void for_each_shape(const PipelineSchedule& schedule, const Check& check) {
  const std::vector<int> chunk_counts = schedule.has_chunks ? std::vector{2, 3, 4} : std::vector{1};
  for (int stages = 2; stages <= kMostStages; ++stages)
    for (int micro_batches = 1; micro_batches <= kMostMicroBatches; ++micro_batches)
      for (const int chunks : chunk_counts) {
        if (schedule.in_rounds && micro_batches % stages != 0) continue;
        SCOPED_TRACE(::testing::Message() << schedule.name << ": " << stages << " stages, " << micro_batches
                                          << " micro-batches, " << chunks << " chunks");
        check(Pipeline{&schedule, stages, micro_batches, chunks});
      }
}

// Micro-batches wait for each other as long, and are held as many at a time, as the schedule's own formulas say. (That
// every stage finishes shows that none waits for ever.)
TEST(Timeline, EverySchedulePlaysAsItsFormulasSay) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    int bubbles = 0;
    for_each_shape(schedule, [&](const Pipeline& pipeline) {
      const Timeline timeline = play_even(pipeline, {});
      for (int s = 0; s < pipeline.stages; ++s)
        EXPECT_EQ(timeline.held[static_cast<std::size_t>(s)], schedule.held(pipeline, s)) << "stage " << s;
      const std::optional<double> bubble = schedule.bubble(pipeline, {});
      if (!bubble) return;
      ++bubbles;
      EXPECT_NEAR(timeline.bubble(), *bubble, kRounding);
    });
    EXPECT_GT(bubbles, 20) << schedule.name;
  }
}

// The formulas themselves, as they are in the papers, with work that takes a while each.
TEST(Timeline, FormulasAreThoseOfTheLiterature) {
  const StageCost cost{1, 1.25, 0.75};
  const auto bubble = [&](const char* name, int p, int m, int chunks = 1) {
    const PipelineSchedule& schedule = pipeline_schedule(name);
    return schedule.bubble({&schedule, p, m, chunks}, cost).value();
  };
  EXPECT_DOUBLE_EQ(bubble("gpipe", 4, 8), 3.0 / 8);
  EXPECT_DOUBLE_EQ(bubble("1f1b", 4, 8), 3.0 / 8);
  EXPECT_DOUBLE_EQ(bubble("interleaved", 4, 8, 3), 3.0 / (3 * 8));
  EXPECT_DOUBLE_EQ(bubble("zero-bubble", 4, 8), 3 * (1 + 1.25 - 0.75) / (8 * 3));
  const auto held = [](const char* name, int p, int m, int chunks, int stage) {
    const PipelineSchedule& schedule = pipeline_schedule(name);
    return schedule.held({&schedule, p, m, chunks}, stage);
  };
  EXPECT_EQ(held("gpipe", 4, 8, 1, 3), 8);
  EXPECT_EQ(held("1f1b", 4, 8, 1, 1), 3);
  EXPECT_EQ(held("interleaved", 4, 8, 3, 1), 2 * 2 + 2 * 4 + 1);
  EXPECT_EQ(held("zero-bubble", 4, 8, 1, 3), 4);
  EXPECT_EQ(held("zero-bubble-h2", 4, 8, 1, 3), 7);
}

TEST(Timeline, WorkThatCostsUnevenlyChangesNoBubbleOfWholeBackwards) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    if (schedule.splits_backward || schedule.has_chunks) continue;
    for_each_shape(schedule, [&](const Pipeline& pipeline) {
      const StageCost cost{1, 1.25, 0.75};
      EXPECT_NEAR(play_even(pipeline, cost).bubble(), schedule.bubble(pipeline, cost).value(), kRounding);
    });
  }
}

TEST(Timeline, ZeroBubbleH2HasNone) {
  for_each_shape(pipeline_schedule("zero-bubble-h2"), [](const Pipeline& pipeline) {
    if (pipeline.micro_batches < 2 * pipeline.stages - 1) return;
    // What is left is the way of the first micro-batch to the last stage, which then works without a pause.
    for (const auto& stage : play_even(pipeline, {}).stages)
      for (std::size_t i = 1; i < stage.size(); ++i) EXPECT_NEAR(stage[i].begin, stage[i - 1].end, kRounding);
  });
}

TEST(Timeline, ASplitBackwardNeverTakesLonger) {
  for (const PipelineSchedule& schedule : pipeline_schedules())
    if (schedule.splits_backward)
      for_each_shape(schedule, [&](Pipeline pipeline) {
        const double split = play_even(pipeline, {}).total;
        pipeline.schedule = &pipeline_schedule(kDefaultSchedule);
        EXPECT_LT(split, play_even(pipeline, {}).total);
      });
}

TEST(Timeline, TheSlowestStageAndTransfersCount) {
  const Pipeline pipeline{.stages = 2, .micro_batches = 2};
  EXPECT_EQ(play(pipeline, {{1, 1, 0}, {2, 2, 0}}).total, 1 + 2 * 4 + 1);
  EXPECT_EQ(play(pipeline, {{1, 1, 0}, {2, 2, 0}}, 0.5).total, 1 + 0.5 + 2 * 4 + 0.5 + 1);
}

// It costs the work, but not the wait: a stage that has nothing else to do repeats before its gradients come.
TEST(Timeline, RepeatedForwardWorkWaitsForNoGradient) {
  const Pipeline pipeline{.stages = 2, .micro_batches = 1};
  EXPECT_EQ(play(pipeline, {{1, 1, 1, 0}, {1, 1, 1, 0}}).total, 6);
  EXPECT_EQ(play(pipeline, {{1, 1, 1, 1}, {1, 1, 1, 0}}).total, 6) << "in the gap";
  EXPECT_EQ(play(pipeline, {{1, 1, 1, 0}, {1, 1, 1, 1}}).total, 7) << "the last stage has none";
  EXPECT_EQ(play(pipeline, {{1, 1, 1, 4}, {1, 1, 1, 0}}).total, 7) << "as much as fits";
  // Where work follows work, all of it counts.
  const Pipeline full{.schedule = &pipeline_schedule("gpipe"), .stages = 1, .micro_batches = 4};
  EXPECT_EQ(play(full, {{1, 1, 1, 1}}).total, 4 * 4);
}

TEST(Timeline, IsPrinted) {
  const Timeline timeline = play_even({.stages = 2, .micro_batches = 2}, {1, 1, 1});
  EXPECT_EQ(to_text(timeline, 1),
            "stage 0  F0 F1 .  .  B0    .  B1\n"
            "stage 1  .  F0 B0    F1 B1    .  .\n");
}

}  // namespace
}  // namespace trifold
