// A cut that a successor would ask for is not given up while the registry does not answer.
#include "runtime/cluster/durable_progress.h"

#include <vector>

#include <gtest/gtest.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;

class DurableProgressTest : public ::testing::Test {
 protected:
  static TrainingState at_step(std::int64_t step) {
    TrainingState state;
    state.step = step;
    return state;
  }

  bool answers_ = true;
  std::vector<std::int64_t> tried_;  // steps
  DurableProgress::Time now_{1h};
  DurableProgress progress_{[this](const TrainingState& state) {
    tried_.push_back(state.step);
    return answers_;
  }};
};

TEST_F(DurableProgressTest, ACutIsUnneededOnceProgressBeyondItIsNoted) {
  EXPECT_EQ(progress_.take_unneeded_cut(), std::nullopt);
  progress_.reached(at_step(20), now_);
  progress_.done_with(20);
  EXPECT_EQ(progress_.take_unneeded_cut(), 20);
  EXPECT_EQ(progress_.take_unneeded_cut(), std::nullopt) << "it is said once";
}

TEST_F(DurableProgressTest, ACutIsKeptWhileTheRegistryDoesNotAnswer) {
  answers_ = false;
  progress_.reached(at_step(20), now_);
  progress_.done_with(20);
  EXPECT_EQ(progress_.take_unneeded_cut(), std::nullopt);
  progress_.try_again(now_ + 10ms);
  EXPECT_EQ(tried_, std::vector<std::int64_t>{20}) << "a call may take long: it is not made at every step";
  answers_ = true;
  progress_.try_again(now_ + 2s);
  EXPECT_EQ(progress_.take_unneeded_cut(), 20);
  progress_.try_again(now_ + 4s);
  EXPECT_EQ(tried_, (std::vector<std::int64_t>{20, 20})) << "it is noted once";
}

TEST_F(DurableProgressTest, LaterProgressTakesThePlaceOfWhatCouldNotBeNoted) {
  answers_ = false;
  progress_.reached(at_step(20), now_);
  progress_.done_with(20);
  answers_ = true;
  progress_.reached(at_step(40), now_ + 1ms);
  progress_.done_with(40);
  EXPECT_EQ(tried_, (std::vector<std::int64_t>{20, 40}));
  EXPECT_EQ(progress_.take_unneeded_cut(), 40);
}

}  // namespace
}  // namespace trifold
