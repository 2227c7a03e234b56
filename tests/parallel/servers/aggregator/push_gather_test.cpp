// Pushes of a host's workers become one, and are answered when the servers have it; waiting ends whatever happens.
#include "parallel/servers/aggregator/push_gather.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "parallel/servers/slices/gradient_codec.h"

namespace trifold {
namespace {

using Shards = std::vector<int>;
using Slices = std::vector<int>;
using Floats = std::vector<float>;

Payload encoded(const Floats& values) {
  std::vector<std::byte> bytes;
  encode(values, {}, {}, bytes);
  return Payload::own(std::move(bytes));
}

Floats decoded(const Payload& payload) {
  Floats values(2);
  decode(payload.bytes(), values);
  return values;
}

// Two weights and a statistic that shards move on, of two numbers each: slices 0, 1 and 2.
class PushGatherTest : public ::testing::Test {
 protected:
  static constexpr int kShards = 4;

  static PushGather make(AggregationArgs rule = {}, bool half = false, double fraction = 1) {
    GatherOptions options{.tensors = {{.name = "a", .elements = 2},
                                      {.name = "b", .elements = 2},
                                      {.name = "running_mean", .elements = 2, .trained = false, .keeps = 0.5}},
                          .participation = {.shards = kShards, .fraction = fraction},
                          .rule = make_aggregation(rule),
                          .half = half};
    options.slices = cut_into_slices(options.tensors);
    return PushGather(std::move(options));
  }
  // Of {value, 10 * value} in every slice; the asker's peer is the shard.
  static WorkerPush push(int shard, std::int64_t clock, float value, Slices slices = {0}) {
    WorkerPush push{.from = {.from = static_cast<PeerId>(shard), .id = static_cast<std::uint64_t>(clock)},
                    .shard = shard,
                    .clock = clock,
                    .rate = 0.5,
                    .slices = std::move(slices)};
    for (std::size_t i = 0; i < push.slices.size(); ++i) push.encodings.push_back(encoded({value, 10 * value}));
    return push;
  }
  static WorkerPush again(WorkerPush push) {
    push.again = true;
    return push;
  }
  static PushAnswer answer(int shard, std::int64_t clock) {
    return {.to = {.from = static_cast<PeerId>(shard), .id = static_cast<std::uint64_t>(clock)}};
  }
  // The only one that is ready.
  static GatheredPush only(PushGather& gather) {
    std::vector<GatheredPush> ready = gather.take_ready();
    EXPECT_EQ(ready.size(), 1u);
    return ready.empty() ? GatheredPush{} : ready.front();
  }
};

TEST_F(PushGatherTest, WaitsForTheShardsOfItsHostAndPushesTheirMean) {
  PushGather gather = make();
  gather.expect({1, 3});
  gather.add(push(3, 0, 6));
  EXPECT_TRUE(gather.take_ready().empty());
  gather.add(push(1, 0, 2));
  const GatheredPush one = only(gather);
  EXPECT_EQ(one.shards, (Shards{1, 3}));
  EXPECT_EQ(one.slices, Slices{0});
  EXPECT_EQ(one.clock, 0);
  EXPECT_EQ(one.rate, 0.5);
  EXPECT_EQ(decoded(one.encodings.front()), (Floats{4, 40}));
}

TEST_F(PushGatherTest, AWeightedMeanHasTheWeightOfAll) {
  PushGather gather = make({.rule = "weighted_mean"});
  gather.expect({0, 1});
  WorkerPush heavy = push(0, 0, 8);
  heavy.weight = 3;
  gather.add(heavy);
  gather.add(push(1, 0, 4));
  const GatheredPush one = only(gather);
  EXPECT_EQ(one.weight, 4);
  EXPECT_EQ(decoded(one.encodings.front()), (Floats{7, 70}));
}

TEST_F(PushGatherTest, SlicesThatAreCompleteTogetherTravelTogether) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(0, 0, 1, {0, 1}));
  gather.add(push(1, 0, 3, {0, 1}));
  const GatheredPush both = only(gather);
  EXPECT_EQ(both.slices, (Slices{0, 1}));
  EXPECT_EQ(decoded(both.encodings[1]), (Floats{2, 20}));
}

TEST_F(PushGatherTest, APushIsAnsweredWhenTheServersHaveAllOfItsSlices) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(0, 0, 1, {0, 1}));
  gather.add(push(1, 0, 1, {0}));
  gather.acknowledged(0, 0, false);
  EXPECT_EQ(gather.take_answers(), std::vector{answer(1, 0)});
  gather.add(push(1, 0, 1, {1}));
  gather.acknowledged(0, 1, false);
  EXPECT_EQ(gather.take_answers(), (std::vector{answer(0, 0), answer(1, 0)}));
}

TEST_F(PushGatherTest, WhatServersHaveIsAnsweredAtOnceWhoeverSendsIt) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(0, 3, 1));
  gather.add(push(1, 3, 1));
  gather.take_ready();
  gather.acknowledged(3, 0, false);
  gather.take_answers();
  gather.add(push(2, 3, 1));  // of a worker that has taken the shard over
  gather.add(push(0, 2, 1));
  EXPECT_TRUE(gather.take_ready().empty());
  EXPECT_EQ(gather.take_answers(), (std::vector{answer(2, 3), answer(0, 2)}));
}

TEST_F(PushGatherTest, WhatIsHeldIsNotSentTwiceAndWhoAskedLastIsAnswered) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(0, 0, 1));
  WorkerPush repeated = again(push(0, 0, 1));
  repeated.from.from = 77;  // it has connected anew
  gather.add(repeated);
  EXPECT_TRUE(gather.take_ready().empty());
  gather.add(push(1, 0, 3));
  EXPECT_EQ(only(gather).shards, (Shards{0, 1}));
  gather.add(repeated);
  EXPECT_TRUE(gather.take_ready().empty());
  gather.acknowledged(0, 0, false);
  EXPECT_EQ(gather.take_answers(), (std::vector<PushAnswer>{{.to = {.from = 77, .id = 0}}, answer(1, 0)}));
}

// Another head died, after it had told shard 0 that the push is safe: nobody sends that again.
TEST_F(PushGatherTest, WhoHasSentElsewhereIsNotMadeToWait) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(again(push(1, 0, 3)));
  EXPECT_EQ(only(gather).shards, Shards{1});
  gather.add(push(0, 0, 1));  // it was not so
  EXPECT_EQ(only(gather).shards, Shards{0});
}

TEST_F(PushGatherTest, AShardThatIsPastAClockIsNotWaitedForThere) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(1, 4, 3));
  gather.add(push(0, 5, 1));
  EXPECT_EQ(only(gather).shards, Shards{1});
  gather.add(push(1, 5, 3));
  const GatheredPush both = only(gather);
  EXPECT_EQ(both.shards, (Shards{0, 1}));
  EXPECT_EQ(both.clock, 5);
}

TEST_F(PushGatherTest, AShardThatHasGoneElsewhereIsNotWaitedFor) {
  PushGather gather = make();
  gather.expect({0, 1, 2});
  gather.add(push(0, 0, 1));
  gather.add(push(1, 0, 3));
  gather.expect({0, 1});
  EXPECT_EQ(only(gather).shards, (Shards{0, 1}));
  gather.add(push(0, 1, 1));
  gather.expect({});  // it is no head any more
  EXPECT_EQ(only(gather).shards, Shards{0});
}

TEST_F(PushGatherTest, AShardThatComesLaterIsSentBesideTheOthers) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(0, 0, 1));
  gather.add(push(1, 0, 3));
  EXPECT_EQ(only(gather).shards, (Shards{0, 1}));
  gather.expect({0, 1, 2});
  gather.add(push(2, 0, 5));
  EXPECT_EQ(only(gather).shards, Shards{2});
}

TEST_F(PushGatherTest, OverlappingOnesAreSentShardByShardAsTheyCame) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(0, 0, 1, {0, 1}));
  gather.add(push(1, 0, 3, {0, 1}));
  gather.take_ready();
  gather.overlapped(0, Shards{0, 1}, Slices{0, 1});
  const std::vector<GatheredPush> ready = gather.take_ready();
  ASSERT_EQ(ready.size(), 2u);
  EXPECT_EQ(ready[0].shards, Shards{0});
  EXPECT_EQ(ready[0].slices, (Slices{0, 1}));
  EXPECT_EQ(ready[0].weight, 1);
  EXPECT_EQ(decoded(ready[0].encodings[1]), (Floats{1, 10}));
  EXPECT_EQ(ready[1].shards, Shards{1});
  EXPECT_EQ(decoded(ready[1].encodings[0]), (Floats{3, 30}));
  gather.acknowledged(0, 0, false);
  gather.acknowledged(0, 1, false);
  EXPECT_EQ(gather.take_answers(), (std::vector{answer(0, 0), answer(1, 0)}));
}

TEST_F(PushGatherTest, StatisticsThatAreMovedOnGoOneByOne) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(0, 0, 1, {1, 2}));
  GatheredPush one = only(gather);
  EXPECT_EQ(one.shards, Shards{0});
  EXPECT_EQ(one.slices, Slices{2});
  gather.add(push(1, 0, 3, {1, 2}));
  const std::vector<GatheredPush> ready = gather.take_ready();
  ASSERT_EQ(ready.size(), 2u);
  EXPECT_EQ(ready[0].shards, (Shards{0, 1}));
  EXPECT_EQ(ready[0].slices, Slices{1});
  EXPECT_EQ(ready[1].shards, Shards{1});
  EXPECT_EQ(ready[1].slices, Slices{2});
}

TEST_F(PushGatherTest, ClientsThatAreNotDrawnAreNotWaitedFor) {
  PushGather gather = make({}, false, 0.5);
  gather.expect({0, 1, 2, 3});
  const std::vector<bool> drawn = Participation{.shards = kShards, .fraction = 0.5}.in_round(7);
  Shards all;
  for (int shard = 0; shard < kShards; ++shard)
    if (drawn[static_cast<std::size_t>(shard)]) all.push_back(shard);
  ASSERT_EQ(all.size(), 2u);
  gather.add(push(all[0], 7, 1));
  EXPECT_TRUE(gather.take_ready().empty());
  gather.add(push(all[1], 7, 1));
  EXPECT_EQ(only(gather).shards, all);
}

// 2049 and 20490 are no numbers of 16 bits; in the mean over rounds they are all the same.
TEST_F(PushGatherTest, WhatSixteenBitsLeaveUnsaidIsSaidLater) {
  PushGather gather = make({}, true);
  gather.expect({0, 1});
  Floats sum(2);
  for (int clock = 0; clock < 64; ++clock) {
    gather.add(push(0, clock, 2048));
    gather.add(push(1, clock, 2050));
    const GatheredPush one = only(gather);
    EXPECT_EQ(one.encodings.front().size(), 8u + 2 * 2u);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += decoded(one.encodings.front())[i];
    gather.acknowledged(clock, 0, false);
  }
  EXPECT_NEAR(sum[0] / 64, 2049, 2.0 / 64);
  EXPECT_NEAR(sum[1] / 64, 20490, 16.0 / 64);
}

TEST_F(PushGatherTest, ARefusalConcernsAllWhosePushesAreInIt) {
  PushGather gather = make();
  gather.expect({0, 1});
  gather.add(push(0, 0, 1));
  gather.add(push(1, 0, 3));
  gather.take_ready();
  EXPECT_EQ(gather.refused(0, Shards{0, 1}, Slices{0}),
            (std::vector<Asker>{{.from = 0, .id = 0}, {.from = 1, .id = 0}}));
  gather.acknowledged(0, 0, false);
  EXPECT_TRUE(gather.take_answers().empty());
}

TEST_F(PushGatherTest, ABadEncodingChangesNothing) {
  PushGather gather = make();
  gather.expect({0, 1});
  WorkerPush bad = push(0, 0, 1, {0, 1});
  bad.encodings[1] = encoded({1, 2, 3});
  EXPECT_THROW(gather.add(bad), Error);
  gather.add(push(1, 0, 3));
  EXPECT_TRUE(gather.take_ready().empty());
  gather.add(push(0, 0, 1));
  EXPECT_EQ(only(gather).shards, (Shards{0, 1}));
}

}  // namespace
}  // namespace trifold
