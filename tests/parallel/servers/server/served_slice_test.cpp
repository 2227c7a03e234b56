// A slice takes each push once, in the order that its consistency asks for.
#include "parallel/servers/server/served_slice.h"

#include <gtest/gtest.h>

#include "parallel/servers/server/slice_fixture.h"

namespace trifold {
namespace {

using namespace test;
using Mode = ConsistencyRules::Mode;
using ServedSliceTest = SliceFixture;
using Taken = ServedSlice::Taken;
using Values = std::vector<float>;

TEST_F(ServedSliceTest, SyncUpdatesOnceByTheMeanOfAllShards) {
  ServedSlice slice = make({}, 2);
  EXPECT_TRUE(slice.ready_for(0));
  EXPECT_EQ(slice.push(push(1, 0, 4)), Taken::waits);
  EXPECT_EQ(*slice.state().values, (Values{10, 10}));
  EXPECT_FALSE(slice.ready_for(1));
  EXPECT_EQ(slice.push(push(0, 0, 2)), Taken::applied);
  EXPECT_EQ(*slice.state().values, (Values{7, 4}));
  EXPECT_TRUE(slice.ready_for(1));
  EXPECT_EQ(slice.state().updates, 1);
  EXPECT_EQ(slice.state().version, 2);
}

TEST_F(ServedSliceTest, APushThatComesTwiceCountsOnce) {
  ServedSlice slice = make({}, 2);
  slice.push(push(0, 0, 2));
  EXPECT_EQ(slice.push(push(0, 0, 2)), Taken::waits);  // sent again before its round was complete
  slice.push(push(1, 0, 4));
  EXPECT_EQ(slice.push(push(0, 0, 2)), Taken::repeated);
  EXPECT_EQ(slice.push(push(1, 0, 4)), Taken::repeated);
  EXPECT_EQ(*slice.state().values, (Values{7, 4}));
}

TEST_F(ServedSliceTest, ClocksThatComeInAnotherOrderAreTakenInTheirs) {
  ServedSlice slice = make({}, 2);
  EXPECT_EQ(slice.push(push(0, 1, 1)), Taken::waits);
  EXPECT_EQ(slice.push(push(1, 1, 1)), Taken::waits);
  EXPECT_EQ(slice.push(push(0, 0, 2)), Taken::waits);
  EXPECT_EQ(slice.push(push(1, 0, 4)), Taken::applied);
  EXPECT_EQ(slice.state().applied, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(*slice.state().values, (Values{6, 2}));
  EXPECT_EQ(slice.push(push(0, 100, 1)), Taken::too_far);
}

TEST_F(ServedSliceTest, BackupWorkersAreNotWaitedForAndTheirsIsLate) {
  ServedSlice slice = make({.backup = 1}, 3);
  slice.push(push(2, 0, 4));
  EXPECT_EQ(slice.push(push(0, 0, 2)), Taken::applied);
  EXPECT_EQ(*slice.state().values, (Values{7, 4}));
  EXPECT_EQ(slice.push(push(1, 0, 99)), Taken::late);
  EXPECT_EQ(slice.push(push(0, 0, 2)), Taken::repeated);
  EXPECT_EQ(*slice.state().values, (Values{7, 4}));
  // Whoever owns the slice next knows it, too.
  ServedSlice moved({.rules = &rules_, .rule = rule_.get(), .update = update_.get()}, slice.state());
  EXPECT_EQ(moved.push(push(1, 0, 99)), Taken::late);
  EXPECT_EQ(moved.push(push(2, 0, 4)), Taken::repeated);
}

TEST_F(ServedSliceTest, AsyncTakesEachPushAtOnceByItsShare) {
  ServedSlice slice = make({.mode = Mode::async}, 2);
  EXPECT_EQ(slice.push(push(0, 0, 2)), Taken::applied);
  EXPECT_EQ(*slice.state().values, (Values{9, 8}));
  EXPECT_EQ(slice.push(push(0, 1, 2)), Taken::applied);
  EXPECT_EQ(*slice.state().values, (Values{8, 6}));
  EXPECT_TRUE(slice.ready_for(1000));
  EXPECT_EQ(slice.state().least(), 0);
}

TEST_F(ServedSliceTest, SspGivesValuesOnlyToWhoIsNotTooFarAhead) {
  ServedSlice slice = make({.mode = Mode::ssp, .staleness = 2}, 2);
  for (int clock = 0; clock < 3; ++clock) slice.push(push(0, clock, 1));
  EXPECT_TRUE(slice.ready_for(2));
  EXPECT_FALSE(slice.ready_for(3));  // shard 1 has done none
  slice.push(push(1, 0, 1));
  EXPECT_TRUE(slice.ready_for(3));
  EXPECT_FALSE(slice.ready_for(4));
}

TEST_F(ServedSliceTest, AnAsyncCutHasExactlyItsClocksAndNothingIsLost) {
  ServedSlice slice = make({.mode = Mode::async, .cut_every = {2}}, 2);
  for (int clock = 0; clock < 4; ++clock) slice.push(push(0, clock, 2));  // clocks 2 and 3 wait for the cut
  EXPECT_EQ(slice.state().applied, (std::vector<std::int64_t>{2, 0}));
  slice.push(push(1, 0, 4));
  slice.push(push(1, 1, 4));
  EXPECT_EQ(slice.state().applied, (std::vector<std::int64_t>{4, 2}));
  ASSERT_TRUE(slice.state().cuts.contains(2));
  EXPECT_EQ(slice.state().cuts.at(2)->applied, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(*slice.state().cuts.at(2)->values, (Values{4, -2}));
  EXPECT_EQ(*slice.state().values, (Values{2, -6}));
}

TEST_F(ServedSliceTest, NothingIsTakenBeyondTheStopUntilItMoves) {
  ServedSlice slice = make({.stop_clock = 1}, 1);
  slice.push(push(0, 0, 1));
  EXPECT_EQ(slice.push(push(0, 1, 1)), Taken::waits);
  EXPECT_EQ(slice.state().least(), 1);
  rules_.stop_clock = 2;
  EXPECT_TRUE(slice.rules_changed());
  EXPECT_EQ(slice.state().least(), 2);
}

TEST_F(ServedSliceTest, WhoReadsCutsSetsThePace) {
  ServedSlice slice = make({.cut_every = {1}}, 1);
  for (int clock = 0; clock < 5; ++clock) slice.push(push(0, clock, 1));
  EXPECT_EQ(slice.state().least(), 3);  // cuts 1, 2 and 3 are kept; the next has no room
  EXPECT_FALSE(slice.release(0));
  EXPECT_TRUE(slice.release(1));
  EXPECT_EQ(slice.state().least(), 4);
  EXPECT_FALSE(slice.state().cuts.contains(1));
  EXPECT_TRUE(slice.state().cuts.contains(4));
}

TEST_F(ServedSliceTest, ValuesThatSomebodyHoldsDoNotChange) {
  ServedSlice slice = make({}, 1);
  const SharedFloats before = slice.state().values;
  slice.push(push(0, 0, 1));
  const SharedFloats between = slice.state().values;
  slice.push(push(0, 1, 1));
  slice.push(push(0, 2, 1));
  EXPECT_EQ(*before, (Values{10, 10}));
  EXPECT_EQ(*between, (Values{9, 8}));
  EXPECT_EQ(*slice.state().values, (Values{7, 4}));
}

TEST_F(ServedSliceTest, WhoRepeatsAClockGetsWhatItBeganWith) {
  ServedSlice slice = make({}, 1);
  slice.push(push(0, 0, 1));
  slice.push(push(0, 1, 1));
  EXPECT_EQ(slice.values_for(2), (Values{8, 6}));
  EXPECT_EQ(slice.values_for(1), (Values{9, 8}));
}

TEST_F(ServedSliceTest, AStatisticIsAveragedNotOptimised) {
  ServedSlice sync = make({}, 2, {.name = "mean", .trained = false});
  sync.push(push(0, 0, 2));
  sync.push(push(1, 0, 4));
  EXPECT_EQ(*sync.state().values, (Values{3, 6}));
  ServedSlice async = make({.mode = Mode::async}, 2, {.name = "mean", .trained = false});
  async.push(push(0, 0, 2));
  EXPECT_EQ(*async.state().values, (Values{6, 7}));
}

// Half of the old value is kept by each: 10 -> 5 + 1 = 6 of the first shard's, -> 3 + 2 = 5 of the second's.
TEST_F(ServedSliceTest, AStatisticThatShardsMoveOnIsMovedByAllOfThem) {
  ServedSlice sync = make({}, 2, {.name = "mean", .trained = false, .keeps = 0.5});
  sync.push({.shard = 0, .clock = 0, .encoding = encoded({6, 6})});
  sync.push({.shard = 1, .clock = 0, .encoding = encoded({7, 5})});
  EXPECT_EQ(*sync.state().values, (Values{5, 3}));
  ServedSlice async = make({.mode = Mode::async}, 2, {.name = "mean", .trained = false, .keeps = 0.5});
  async.push({.shard = 0, .clock = 0, .encoding = encoded({6, 6})});
  EXPECT_EQ(*async.state().values, (Values{6, 6}));
}

TEST_F(ServedSliceTest, ClientsThatDoNotTakePartAreNotWaitedFor) {
  ConsistencyRules rules;
  rules.participation.fraction = 0.5;
  ServedSlice slice = make(rules, 4);
  const std::vector<bool> drawn = rules_.participation.in_round(0);
  int taken = 0;
  for (int shard = 0; shard < 4; ++shard) {
    if (drawn[static_cast<std::size_t>(shard)]) continue;
    EXPECT_EQ(slice.push(push(shard, 0, 100)), Taken::waits);
  }
  for (int shard = 0; shard < 4; ++shard) {
    if (!drawn[static_cast<std::size_t>(shard)]) continue;
    EXPECT_EQ(slice.push(push(shard, 0, 2)), ++taken == 2 ? Taken::applied : Taken::waits);
  }
  EXPECT_EQ(*slice.state().values, (Values{8, 6}));
}

TEST_F(ServedSliceTest, WhereTheRuleChoosesARoundWaitsForTheChoice) {
  ServedSlice slice = make({}, 3, {}, {.rule = "krum", .byzantine = 0});
  EXPECT_TRUE(slice.candidates().empty());
  for (const int shard : {2, 0}) slice.push(push(shard, 0, static_cast<float>(shard)));
  EXPECT_EQ(slice.candidates(), (std::vector<int>{0, 2}));
  EXPECT_EQ(slice.push(push(1, 0, 1)), Taken::waits);
  slice.push(push(1, 0, 99));  // once compared, it stays as it was
  std::vector<double> distances(9, 0.0);
  slice.add_distances(std::vector<int>{0, 1, 2}, distances);
  EXPECT_EQ(distances, (std::vector<double>{0, 5, 20, 5, 0, 5, 20, 5, 0}));
  EXPECT_FALSE(slice.choose({.clock = 1, .shard = 0}));
  EXPECT_TRUE(slice.state().least() == 0);
  ServedSlice other = make({}, 3, {}, {.rule = "krum", .byzantine = 0});
  for (const int shard : {0, 2}) other.push(push(shard, 0, static_cast<float>(shard)));
  EXPECT_FALSE(other.choose({.clock = 0, .shard = 1}));
  EXPECT_EQ(other.push(push(1, 0, 1)), Taken::applied);  // the chosen one comes after the choice
  EXPECT_EQ(*other.state().values, (Values{9, 8}));
  EXPECT_EQ(other.state().choice, (RoundChoice{.clock = 0, .shard = 1}));
}

TEST_F(ServedSliceTest, TheRateIsTheChosenOnes) {
  ServedSlice slice = make({}, 3, {}, {.rule = "krum", .byzantine = 0});
  SlicePush liar = push(0, 0, 1);
  liar.rate = 1e6;
  slice.push(liar);
  for (const int shard : {1, 2}) slice.push(push(shard, 0, 1));
  EXPECT_TRUE(slice.choose({.clock = 0, .shard = 2}));
  EXPECT_EQ(*slice.state().values, (Values{9, 8}));
}

TEST_F(ServedSliceTest, AStatisticIsTheChosenOnesAndDoesNotChoose) {
  ServedSlice slice = make({}, 3, {.name = "mean", .trained = false}, {.rule = "krum", .byzantine = 0});
  for (const int shard : {0, 1, 2}) slice.push(push(shard, 0, static_cast<float>(shard)));
  std::vector<double> distances(9, 0.0);
  slice.add_distances(std::vector<int>{0, 1, 2}, distances);
  EXPECT_EQ(distances, std::vector<double>(9, 0.0));
  EXPECT_TRUE(slice.choose({.clock = 0, .shard = 2}));
  EXPECT_EQ(*slice.state().values, (Values{2, 4}));
}

// Shards push 2, 4, 6 and 8: 5 in the mean, however they come.
class PushesOfSeveralShards : public SliceFixture {
 protected:
  ServedSlice slice_ = make({}, 4);
  void expect_one_round() {
    EXPECT_EQ(*slice_.state().values, (Values{5, 0}));
    EXPECT_EQ(slice_.state().applied, (std::vector<std::int64_t>(4, 1)));
    EXPECT_EQ(slice_.state().updates, 1);
  }
};

TEST_F(PushesOfSeveralShards, CountForAllOfThem) {
  EXPECT_EQ(slice_.push(combined({0, 3}, 0, 5)), Taken::waits);
  EXPECT_EQ(slice_.push(push(1, 0, 4)), Taken::waits);
  EXPECT_EQ(slice_.push(push(2, 0, 6)), Taken::applied);
  expect_one_round();
}

TEST_F(PushesOfSeveralShards, CountByTheirNumber) {
  EXPECT_EQ(slice_.push(combined({0, 1, 2}, 0, 4)), Taken::waits);
  EXPECT_EQ(slice_.push(push(3, 0, 8)), Taken::applied);
  expect_one_round();
}

TEST_F(PushesOfSeveralShards, CountByTheirWeightsInAWeightedMean) {
  ServedSlice slice = make({}, 3, {}, {.rule = "weighted_mean"});
  SlicePush two = combined({0, 1}, 0, 6);  // 3 by weight 1 and 7 by weight 3
  two.weight = 4;
  slice.push(std::move(two));
  EXPECT_EQ(slice.push(push(2, 0, 1, 1)), Taken::applied);
  EXPECT_EQ(*slice.state().values, (Values{5, 0}));
}

TEST_F(PushesOfSeveralShards, ThatComeAgainCountOnce) {
  slice_.push(combined({0, 1}, 0, 3));
  EXPECT_EQ(slice_.push(combined({0, 1}, 0, 3)), Taken::waits);
  slice_.push(combined({2, 3}, 0, 7));
  expect_one_round();
  EXPECT_EQ(slice_.push(combined({0, 1}, 0, 3)), Taken::repeated);
  EXPECT_EQ(slice_.push(combined({1, 2}, 0, 5)), Taken::repeated);  // of whatever shards: their round is complete
  EXPECT_EQ(slice_.push(push(1, 0, 4)), Taken::repeated);
  expect_one_round();
}

// The head died after it had pushed; its workers push themselves what was not acknowledged.
TEST_F(PushesOfSeveralShards, AreNotTakenAgainShardByShard) {
  slice_.push(combined({0, 1}, 0, 3));
  EXPECT_EQ(slice_.push(push(0, 0, 2)), Taken::waits);
  EXPECT_EQ(slice_.push(push(1, 0, 4)), Taken::waits);
  EXPECT_EQ(slice_.push(push(2, 0, 6)), Taken::waits);
  EXPECT_EQ(slice_.push(push(3, 0, 8)), Taken::applied);
  expect_one_round();
}

// The workers were quicker than what the head had still sent: all of it is here.
TEST_F(PushesOfSeveralShards, WaitWithThoseOfThemThatCameAlone) {
  slice_.push(push(0, 0, 2));
  slice_.push(push(1, 0, 4));
  EXPECT_EQ(slice_.push(combined({0, 1}, 0, 3)), Taken::waits);
  EXPECT_EQ(slice_.push(combined({2, 3}, 0, 7)), Taken::applied);
  expect_one_round();
}

// Some of it is here: it can be neither added nor left out. Whoever sent it sends its shards one by one.
TEST_F(PushesOfSeveralShards, AreRefusedWhereSomeOfThemWait) {
  slice_.push(push(1, 0, 4));
  EXPECT_EQ(slice_.push(combined({0, 1}, 0, 3)), Taken::overlaps);
  EXPECT_EQ(slice_.push(push(0, 0, 2)), Taken::waits);
  EXPECT_EQ(slice_.push(push(1, 0, 4)), Taken::waits);
  EXPECT_EQ(slice_.push(combined({2, 3}, 0, 7)), Taken::applied);
  expect_one_round();
}

// A shard went to a worker of another host, and both heads had it.
TEST_F(PushesOfSeveralShards, OfTwoHostsThatShareAShardAreSortedOut) {
  slice_.push(combined({0, 1}, 0, 3));
  EXPECT_EQ(slice_.push(combined({1, 2, 3}, 0, 6)), Taken::overlaps);
  EXPECT_EQ(slice_.push(push(1, 0, 4)), Taken::waits);
  EXPECT_EQ(slice_.push(push(2, 0, 6)), Taken::waits);
  EXPECT_EQ(slice_.push(push(3, 0, 8)), Taken::applied);
  expect_one_round();
}

TEST_F(PushesOfSeveralShards, AddUpInTheOrderOfShardsWhoeverComesFirst) {
  const auto values_after = [&](const std::vector<SlicePush>& pushes) {
    ServedSlice slice = make({}, 4);
    for (const SlicePush& each : pushes) slice.push(each);
    return *slice.state().values;
  };
  const SlicePush a = combined({0, 2}, 0, 1e8f), b = push(1, 0, -1e8f), c = push(3, 0, 0.125f);
  EXPECT_EQ(values_after({a, b, c}), values_after({c, b, a}));
}

TEST_F(PushesOfSeveralShards, AreForRoundsOfAllThatAreAveraged) {
  const auto refused = [&](ConsistencyRules rules, ServedTensor tensor = {}, AggregationArgs rule = {}) {
    ServedSlice slice = make(std::move(rules), 4, std::move(tensor), std::move(rule));
    EXPECT_THROW(slice.push(combined({0, 1}, 0, 3)), Error);
    EXPECT_EQ(slice.state().version, 1);
  };
  refused({.mode = Mode::async});
  refused({.mode = Mode::ssp, .staleness = 2});
  refused({.backup = 1});
  refused({}, {}, {.rule = "median"});
  refused({}, {.name = "running_mean", .trained = false, .keeps = 0.5});
  ConsistencyRules half;
  half.participation.fraction = 0.5;  // of four shards, two are drawn
  ServedSlice slice = make(half, 4);
  EXPECT_THROW(slice.push(combined({0, 1, 2}, 0, 3)), Error);
}

TEST_F(ServedSliceTest, AnEncodingOfAnotherSizeIsRefusedAndChangesNothing) {
  ServedSlice slice = make({}, 1);
  SlicePush wrong = push(0, 0, 1);
  wrong.encoding = encoded({1, 2, 3});
  EXPECT_THROW(slice.push(wrong), Error);
  EXPECT_EQ(slice.push(push(0, 0, 1)), Taken::applied);
  EXPECT_EQ(*slice.state().values, (Values{9, 8}));
}

}  // namespace
}  // namespace trifold
