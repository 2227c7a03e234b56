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
void for_each_shape(const Check& check) {
  for (int stages = 2; stages <= kMostStages; ++stages)
    for (int micro_batches = 1; micro_batches <= kMostMicroBatches; ++micro_batches) {
      SCOPED_TRACE(::testing::Message() << stages << " stages, " << micro_batches << " micro-batches");
      check(stages, micro_batches);
    }
}

TEST(Timeline, GpipeWaitsForStagesLessOneAndHoldsAll) {
  for_each_shape([](int p, int m) {
    const Timeline timeline =
        play_even({.kind = PipelineSchedule::gpipe, .stages = p, .micro_batches = m}, {1, 1.25, 0.75});
    EXPECT_NEAR(timeline.bubble(), (p - 1.0) / m, kRounding);
    for (int s = 0; s < p; ++s) EXPECT_EQ(timeline.held[static_cast<std::size_t>(s)], m);
  });
}

TEST(Timeline, OneForwardOneBackwardWaitsAsLongAndHoldsLess) {
  for_each_shape([](int p, int m) {
    const Timeline timeline = play_even({.stages = p, .micro_batches = m}, {1, 1.25, 0.75});
    EXPECT_NEAR(timeline.bubble(), (p - 1.0) / m, kRounding);
    for (int s = 0; s < p; ++s) EXPECT_EQ(timeline.held[static_cast<std::size_t>(s)], std::min(m, p - s));
  });
}

TEST(Timeline, InterleavingDividesTheBubbleByTheChunks) {
  for_each_shape([](int p, int m) {
    if (m % p != 0) return;
    for (const int v : {2, 3, 4}) {
      const Timeline timeline =
          play_even({.kind = PipelineSchedule::interleaved, .stages = p, .micro_batches = m, .chunks = v}, {1, 1, 1});
      EXPECT_NEAR(timeline.bubble(), (p - 1.0) / (v * m), kRounding) << v << " chunks";
      for (int s = 0; s < p; ++s)
        EXPECT_EQ(timeline.held[static_cast<std::size_t>(s)], std::min(m * v, 2 * (p - s - 1) + (v - 1) * p + 1))
            << v << " chunks, stage " << s;
    }
  });
}

// The formulas of both zero-bubble schedules are of a pipeline that is filled at all: with fewer micro-batches the
// first backward cannot start before the last forward ends, and there are fewer gradients of weights than gaps.
TEST(Timeline, ZeroBubbleH1FillsTheGapsWithGradientsOfWeights) {
  for_each_shape([](int p, int m) {
    if (m < p) return;
    const Timeline timeline =
        play_even({.kind = PipelineSchedule::zero_bubble_h1, .stages = p, .micro_batches = m}, {});
    EXPECT_NEAR(timeline.bubble(), (p - 1.0) / (3.0 * m), kRounding);
    for (const int held : timeline.held) EXPECT_EQ(held, p);
  });
}

TEST(Timeline, ZeroBubbleH2HasNone) {
  for_each_shape([](int p, int m) {
    if (m < 2 * p - 1) return;
    const Timeline timeline =
        play_even({.kind = PipelineSchedule::zero_bubble_h2, .stages = p, .micro_batches = m}, {});
    // What is left is the way of the first micro-batch to the last stage, which then works without a pause.
    for (const auto& stage : timeline.stages)
      for (std::size_t i = 1; i < stage.size(); ++i) EXPECT_NEAR(stage[i].begin, stage[i - 1].end, kRounding);
    for (const int held : timeline.held) EXPECT_EQ(held, 2 * p - 1);
  });
}

TEST(Timeline, ZeroBubbleNeverTakesLonger) {
  for_each_shape([](int p, int m) {
    const double plain = play_even({.stages = p, .micro_batches = m}, {}).total;
    EXPECT_LT(play_even({.kind = PipelineSchedule::zero_bubble_h1, .stages = p, .micro_batches = m}, {}).total, plain);
    EXPECT_LT(play_even({.kind = PipelineSchedule::zero_bubble_h2, .stages = p, .micro_batches = m}, {}).total, plain);
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
  const Pipeline full{.kind = PipelineSchedule::gpipe, .stages = 1, .micro_batches = 4};
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
