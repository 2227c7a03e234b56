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

EpochResult nodes(const std::map<int, double>& losses, int shards = 2) {
  return {.train_loss = 1, .nodes = NodeFigures{.shards = shards, .losses = losses}};
}

TEST(StopRules, EachNodeHasToHaveItsOwnFlatEpoch) {
  StopDecision stop({.loss_delta = 0.01, .each_node = true});
  EXPECT_EQ(stop.after_epoch(nodes({{0, 1.0}, {1, 2.0}})), std::nullopt);
  EXPECT_EQ(stop.after_epoch(nodes({{0, 1.0}, {1, 1.0}})), std::nullopt);  // their mean's rule would ask 0 alone
  EXPECT_EQ(stop.finished_nodes(), 1);
  EXPECT_EQ(stop.after_epoch(nodes({{0, 5.0}, {1, 0.5}})), std::nullopt);  // 0 has had it, whatever others do to it
  EXPECT_EQ(stop.after_epoch(nodes({{0, 6.0}, {1, 0.495}})), "each_node");
}

TEST(StopRules, ANodeIsComparedWithItsLastRoundAndEveryNodeIsAsked) {
  StopDecision stop({.loss_delta = 0.01, .each_node = true});
  stop.after_epoch(nodes({{0, 1.0}}, 3));
  stop.after_epoch(nodes({{1, 1.0}}, 3));
  EXPECT_EQ(stop.after_epoch(nodes({{0, 1.0}, {1, 1.0}}, 3)), std::nullopt);
  EXPECT_EQ(stop.finished_nodes(), 2);
  stop.after_epoch(nodes({{2, 1.0}}, 3));
  EXPECT_EQ(stop.after_epoch(nodes({{2, 1.0}}, 3)), "each_node");
}

TEST(StopRules, WhatIsKnownOfNodesGoesOnAfterACheckpoint) {
  const StopRules rules{.loss_delta = 0.01, .patience = 1, .each_node = true};
  StopDecision before(rules);
  before.after_epoch(nodes({{0, 1.0}, {11, 2.0}}));
  before.after_epoch(nodes({{0, 1.0}, {11, 2.0}}));
  StopDecision after(rules);
  after.restore(before.state());
  EXPECT_EQ(after.state(), before.state());
  EXPECT_EQ(after.after_epoch(nodes({{0, 1.0}, {11, 2.0}})), "each_node");
}

TEST(StopRules, NodesWhoseModelsOrOutputsAreCloseEnd) {
  EpochResult result{.train_loss = 1, .nodes = NodeFigures{.shards = 2, .model_distance = 0.1, .output_kl = 0.02}};
  EXPECT_EQ(StopDecision({.model_distance = 0.1}).after_epoch(result), std::nullopt);  // not below
  EXPECT_EQ(StopDecision({.model_distance = 0.11}).after_epoch(result), "model_distance");
  EXPECT_EQ(StopDecision({.output_kl = 0.01}).after_epoch(result), std::nullopt);
  EXPECT_EQ(StopDecision({.output_kl = 0.03}).after_epoch(result), "output_kl");
  result.nodes->model_distance = std::nullopt;  // one node's is not known
  EXPECT_EQ(StopDecision({.model_distance = 0.11}).after_epoch(result), std::nullopt);
}

}  // namespace
}  // namespace trifold
