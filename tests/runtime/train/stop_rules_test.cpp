#include "runtime/train/stop_rules.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

EpochResult epoch(double loss, double accuracy, double minutes = 0) {
  return {loss, accuracy, minutes};
}

TEST(StopRules, NoneNeverStops) {
  StopDecision stop({});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(stop.after_epoch(epoch(1, 0.5, 1e6)), std::nullopt);
}

TEST(StopRules, TargetAccuracy) {
  StopDecision stop(StopRules{.target_accuracy = 0.9});
  EXPECT_EQ(stop.after_epoch(epoch(1, 0.89)), std::nullopt);
  EXPECT_EQ(stop.after_epoch(epoch(1, 0.9)), "target_accuracy");
}

TEST(StopRules, LossDelta) {
  StopDecision stop({.loss_delta = 0.01});
  EXPECT_EQ(stop.after_epoch(epoch(1.0, 0)), std::nullopt);
  EXPECT_EQ(stop.after_epoch(epoch(0.5, 0)), std::nullopt);
  EXPECT_EQ(stop.after_epoch(epoch(0.495, 0)), "loss_delta");
}

TEST(StopRules, LossDeltaBearsFlatEpochsWithPatience) {
  StopDecision stop({.loss_delta = 0.01, .patience = 1});
  stop.after_epoch(epoch(0.5, 0));
  EXPECT_EQ(stop.after_epoch(epoch(0.5, 0)), std::nullopt);
  EXPECT_EQ(stop.after_epoch(epoch(0.5, 0)), "loss_delta");
}

TEST(StopRules, PatienceCountsFromTheBest) {
  StopDecision stop({.patience = 2});
  EXPECT_EQ(stop.after_epoch(epoch(1, 0.5)), std::nullopt);
  EXPECT_EQ(stop.after_epoch(epoch(1, 0.4)), std::nullopt);
  EXPECT_EQ(stop.after_epoch(epoch(1, 0.6)), std::nullopt);
  EXPECT_EQ(stop.after_epoch(epoch(1, 0.6)), std::nullopt);
  EXPECT_EQ(stop.after_epoch(epoch(1, 0.6)), "patience");
}

TEST(StopRules, MinutesAlsoWithinAnEpoch) {
  StopDecision stop({.minutes = 2});
  EXPECT_FALSE(stop.out_of_time(1.9));
  EXPECT_TRUE(stop.out_of_time(2));
  EXPECT_EQ(stop.after_epoch(epoch(1, 0, 2.5)), "minutes");
}

TEST(StopRules, GoesOnFromItsState) {
  StopDecision first({.patience = 2});
  first.after_epoch(epoch(1, 0.5));
  first.after_epoch(epoch(1, 0.4));
  StopDecision second({.patience = 2});
  second.restore(first.state());
  EXPECT_EQ(second.after_epoch(epoch(1, 0.4)), "patience");
}

}  // namespace
}  // namespace trifold
