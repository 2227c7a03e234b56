// Whose push of a clock counts is chosen for whole models, whatever each server sees of them, and stays chosen.
#include "parallel/servers/server/round_choice.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

// Distances of contributions that are numbers on a line.
std::vector<double> apart(const std::vector<double>& places) {
  std::vector<double> distances;
  for (const double a : places)
    for (const double b : places) distances.push_back((a - b) * (a - b));
  return distances;
}

const std::vector<int> kAll = {0, 1, 2, 3, 4};

class RoundChooserTest : public ::testing::Test {
 protected:
  RoundChooser chooser(int needed = 5) {
    return RoundChooser({.rule = rule_.get(), .owners = {"a", "b"}, .needed = needed});
  }
  int krum(const std::vector<double>& places) const { return rule_->choose(apart(places)); }

  std::unique_ptr<AggregationRule> rule_ = make_aggregation({.rule = "krum", .byzantine = 1});
};

// Shard 4 says what all others nearly say on one server, and something else on the other.
TEST_F(RoundChooserTest, AddsUpWhatServersSeeBeforeItChooses) {
  const std::vector<double> here = {-1, 1, 5, -5, 0};
  const std::vector<double> there = {0, 1, 2, 3, 1000};
  EXPECT_EQ(krum(here), 4);
  EXPECT_EQ(krum(there), 1);
  RoundChooser chooser = this->chooser();
  EXPECT_EQ(chooser.take("a", {.clock = 7, .shards = kAll, .distances = apart(here)}), std::nullopt);
  const auto choice = chooser.take("b", {.clock = 7, .shards = kAll, .distances = apart(there)});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->clock, 7);
  EXPECT_EQ(choice->shard, 1);
  EXPECT_EQ(chooser.last(), *choice);
}

TEST_F(RoundChooserTest, ChoosesOnceAClock) {
  RoundChooser chooser = this->chooser();
  const RoundReport report{.clock = 0, .shards = kAll, .distances = apart({0, 1, 2, 3, 4})};
  chooser.take("a", report);
  EXPECT_TRUE(chooser.take("b", report));
  EXPECT_FALSE(chooser.take("a", report));
  EXPECT_FALSE(chooser.take("b", report));
  RoundReport next = report;
  next.clock = 1;
  next.last = chooser.last();
  EXPECT_FALSE(chooser.take("a", next));
  EXPECT_TRUE(chooser.take("b", next));
}

TEST_F(RoundChooserTest, OfBackupWorkersThoseCountThatAreOnAllServers) {
  RoundChooser chooser = this->chooser(5);
  const std::vector<int> five = {0, 1, 2, 4, 5};
  chooser.take("a", {.clock = 0, .shards = kAll, .distances = apart({0, 1, 2, 3, 4})});
  EXPECT_FALSE(chooser.take("b", {.clock = 0, .shards = five, .distances = apart({0, 1, 2, 4, 5})}));
  const auto choice =
      chooser.take("a", {.clock = 0, .shards = {0, 1, 2, 3, 4, 5}, .distances = apart({50, 60, 10, 0, 11, 12})});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->shard, 4);  // of 0, 1, 2, 4, 5
}

// The rest of the cluster was lost after "a" had completed the clock by shard 3.
TEST_F(RoundChooserTest, WhatASliceWasCompletedWithCountsForTheOthers) {
  RoundChooser chooser = this->chooser();
  EXPECT_FALSE(chooser.take("b", {.clock = 4, .shards = kAll, .distances = apart({0, 1, 2, 3, 1000})}));
  const auto choice = chooser.take("a", {.clock = 5, .last = {.clock = 4, .shard = 3}});
  ASSERT_TRUE(choice);
  EXPECT_EQ(*choice, (RoundChoice{.clock = 4, .shard = 3}));
}

TEST_F(RoundChooserTest, AServerWhoseSlicesHadNoPartInAClockIsNotAskedOfIt) {
  RoundChooser chooser = this->chooser();
  chooser.take("a", {.clock = 6, .last = {.clock = 4, .shard = 3}});
  const auto choice = chooser.take("b", {.clock = 5, .shards = kAll, .distances = apart({0, 1, 2, 3, 1000})});
  ASSERT_TRUE(choice);
  EXPECT_EQ(*choice, (RoundChoice{.clock = 5, .shard = 1}));
}

TEST_F(RoundChooserTest, StrangersAreNotListenedTo) {
  RoundChooser chooser = this->chooser();
  EXPECT_THROW(chooser.take("c", {}), Error);
}

TEST(RoundReportTest, ComesOutOfItsMessageAsItWas) {
  const RoundReport report{
      .clock = 9, .last = {.clock = 8, .shard = 2}, .shards = {0, 3}, .distances = {0, 1.5, 1.5, 0}};
  Message message;
  put_report(message, report);
  EXPECT_EQ(take_report(message, 4), report);
  EXPECT_THROW(take_report(message, 3), Error);  // there is no shard 3
  message.fields["shards"] = {3, 0};
  EXPECT_THROW(take_report(message, 4), Error);
  message.fields["shards"] = {0, 1, 3};
  EXPECT_THROW(take_report(message, 4), Error);  // not as many distances
  message.fields.erase("clock");
  EXPECT_THROW(take_report(message, 4), Error);
}

}  // namespace
}  // namespace trifold
