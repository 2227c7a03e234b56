// From what a board says now and said before to what is shown.
#include "insight/live/live_sampler.h"

#include <gtest/gtest.h>

#include "support/allocation_counter.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

class LiveSamplerTest : public ::testing::Test {
 protected:
  LiveSamplerTest() {
    run_.job = "job";
    run_.ranks = 4;
    run_.processes = 2;
    run_.micro_batches = 2;
    for (int rank = 0; rank < 2; ++rank)
      run_.ranks_here.push_back({.rank = rank, .plan_bytes = 1000, .names = {"conv1", "send"}, .nodes = {{0, 1}, {0}}});
    reading_.ranks.resize(2);
    reading_.has_figures = true;
    reading_.figures = {.epoch = 1, .epochs = 1, .step = 1, .steps = 1000, .images_left = 5000};
  }

  LiveState at(LiveSampler::Clock::duration since_begin) {
    reading_.read_at = begin_ + since_begin;
    return sampler_.sample(reading_, &run_);
  }
  void step_ended(LiveSampler::Clock::duration since_begin, std::int64_t images) {
    reading_.stepped_at = begin_ + since_begin;
    reading_.figures.images = images;
    reading_.figures.train_s = std::chrono::duration<double>(since_begin).count();
  }

  LiveSampler::Clock::time_point begin_{};
  LiveSampler sampler_{LiveSampler::Clock::time_point{}};
  LiveRun run_;
  LiveBoard::Reading reading_;
};

TEST_F(LiveSamplerTest, SpeedIsOfTheLastSeconds) {
  step_ended(1s, 100);
  at(1s);
  for (int second = 2; second <= 20; ++second) {  // 100 images a second, then 300
    step_ended(std::chrono::seconds(second), second <= 10 ? 100 * second : 1000 + 300 * (second - 10));
    at(std::chrono::seconds(second));
  }
  const LiveState state = at(20s);
  EXPECT_NEAR(state.images_per_s, 300, 1e-6);
  EXPECT_NEAR(state.mean_images_per_s, 4000.0 / 20, 1e-6);
  EXPECT_NEAR(state.left_s.value_or(0), 5000 / 200.0, 1e-6);
  EXPECT_NEAR(state.elapsed_s, 20, 1e-9);
}

TEST_F(LiveSamplerTest, SpeedOfLongStepsDoesNotFlicker) {
  step_ended(10s, 100);
  at(10s);
  step_ended(20s, 200);
  for (int tenth = 0; tenth < 90; ++tenth) EXPECT_NEAR(at(20s + tenth * 100ms).images_per_s, 10, 1e-6);
  EXPECT_LT(at(60s).images_per_s, 3);  // nothing comes any more
}

TEST_F(LiveSamplerTest, SharesAreOfTheLastSecond) {
  auto& spent = reading_.ranks[0].spent_s;
  spent[static_cast<std::size_t>(Activity::forward)] = 100;
  at(100s);
  spent[static_cast<std::size_t>(Activity::forward)] += 0.5;
  spent[static_cast<std::size_t>(Activity::communication)] += 0.25;
  spent[static_cast<std::size_t>(Activity::idle)] += 0.25;
  const LiveState state = at(101s);
  ASSERT_EQ(state.ranks.size(), 2U);
  EXPECT_NEAR(state.ranks[0].compute, 0.5, 1e-9);
  EXPECT_NEAR(state.ranks[0].communication, 0.25, 1e-9);
  EXPECT_NEAR(state.ranks[0].idle, 0.25, 1e-9);
  EXPECT_EQ(state.ranks[1].compute, 0);
  at(102s);
  spent[static_cast<std::size_t>(Activity::update)] += 1;
  EXPECT_NEAR(at(103s).ranks[0].compute, 1, 1e-9);  // what was before is forgotten
}

TEST_F(LiveSamplerTest, NodesAreCalledByTheirNames) {
  reading_.ranks[0] = {.activity = Activity::communication, .program = 0, .micro_batch = 1, .node = 1, .seconds = 2};
  reading_.ranks[1] = {.activity = Activity::forward, .program = 1, .micro_batch = 0, .node = 7};  // no such node
  const LiveState state = at(1s);
  EXPECT_EQ(state.ranks[0].work, "send");
  EXPECT_EQ(state.ranks[0].micro_batch, 1);
  EXPECT_EQ(state.ranks[0].seconds, 2);
  EXPECT_EQ(state.ranks[0].plan_bytes, 1000U);
  EXPECT_EQ(state.ranks[1].work, "");
  EXPECT_EQ(state.ranks_elsewhere, 2);
  EXPECT_GT(state.process_bytes, 1'000'000U);
}

TEST_F(LiveSamplerTest, LinesAreHeardInPieces) {
  sampler_.heard("first\nsec");
  sampler_.heard("ond\n\n[2026-11-17 00:00:00.000] [trifold] [\x1b[33m\x1b[1mwarning\x1b[m] full\nunfinished");
  const LiveState state = at(1s);
  ASSERT_EQ(state.messages.size(), 3U);
  EXPECT_EQ(state.messages[0].text, "first");
  EXPECT_EQ(state.messages[1].text, "second");
  EXPECT_EQ(state.messages[2].text, "full");
  EXPECT_EQ(state.messages[2].tone, Tone::warning);
}

TEST(LiveMessages, TonesAreOfTheLevel) {
  EXPECT_EQ(message_of("[t] [trifold] [error] lost").tone, Tone::error);
  EXPECT_EQ(message_of("[t] [trifold] [info] 4 ranks").tone, Tone::plain);
  EXPECT_EQ(message_of("trifold: rank 3 was lost").tone, Tone::error);
  EXPECT_EQ(message_of("epoch 1 says [warning] x").text, "epoch 1 says [warning] x");
  EXPECT_EQ(message_of("a\x1b[2Jb\rc\x07").text, "abc");
}

TEST(LiveBoard, HandsOnWhatItWasTold) {
  LiveBoard board;
  LiveBoard::Reading reading;
  board.read(reading);
  EXPECT_FALSE(reading.has_figures);
  EXPECT_EQ(board.run(), nullptr);
  LiveRun run{.job = "job"};
  run.ranks_here.resize(2);
  const std::span<RankActivity> activities = board.begin(std::move(run));
  ASSERT_EQ(activities.size(), 2U);
  activities[1].begin(Activity::update, 5);
  board.stepped({.loss = 3});
  board.stepped({.loss = 1});
  board.stepped({.loss = 2});
  board.writes_checkpoint(3);
  board.evaluated(0.5, 0.9, 0.95);
  board.read(reading);
  EXPECT_EQ(reading.losses, (std::vector<double>{3, 1, 2}));
  EXPECT_EQ(reading.least_loss, 1);
  EXPECT_EQ(reading.figures.loss, 2);
  EXPECT_EQ(reading.ranks[1].activity, Activity::update);
  EXPECT_EQ(reading.ranks[1].node, 5);
  EXPECT_TRUE(reading.writing_checkpoint);
  EXPECT_EQ(reading.checkpoint_step, 3);
  EXPECT_EQ(reading.best_test_accuracy, 0.95);
  board.wrote_checkpoint();
  board.read(reading);
  EXPECT_FALSE(reading.writing_checkpoint);
  EXPECT_EQ(reading.ranks.size(), 2U);
}

TEST(LiveBoard, AStepAllocatesNothing) {
  LiveBoard board;
  LiveRun run;
  run.ranks_here.resize(1);
  const std::span<RankActivity> activities = board.begin(std::move(run));
  const test::AllocationCounter counter;
  for (int step = 0; step < 2000; ++step) {
    activities[0].begin(Activity::forward, step);
    board.stepped({.step = step, .loss = 1.0 / (1 + step)});
  }
  EXPECT_EQ(counter.count(), 0);
}

}  // namespace
}  // namespace trifold
