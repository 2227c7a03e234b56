// From what is told of a cluster now and was told before to what is shown of it.
#include "insight/live/cluster_sampler.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;

class ClusterSamplerTest : public ::testing::Test {
 protected:
  // Each shard did `steps` of `ms` since it was last told of, and sent so much.
  void did(std::size_t shard, std::int64_t steps, double ms, std::int64_t bytes = 0) {
    LiveShard& told = cluster_.shards[shard];
    told.steps += steps;
    told.timed += steps;
    told.work_ms += ms * static_cast<double>(steps);
    told.sent_bytes += bytes;
    told.received_bytes += 2 * bytes;
    told.heard_at = now_;
  }
  LiveClusterState after(LiveShard::Clock::duration duration) {
    now_ += duration;
    cluster_.told_at = now_;
    return sampler_.sample(cluster_, now_);
  }

  LiveShard::Clock::time_point now_ = {};
  LiveCluster cluster_{.shards = std::vector<LiveShard>(3, {.worker = "worker"})};
  ClusterSampler sampler_;
};

TEST_F(ClusterSamplerTest, OfWhoHasSaidNothingNothingIsShown) {
  const LiveClusterState state = after(1s);
  ASSERT_EQ(state.shards.size(), 3U);
  for (const LiveShardState& shard : state.shards) {
    EXPECT_FALSE(shard.step_ms || shard.silent_s || shard.slow || shard.missed);
    EXPECT_EQ(shard.sent_per_s, 0);
  }
}

TEST_F(ClusterSamplerTest, SpeedsAreOfTheLastSeconds) {
  after(0s);
  for (int second = 1; second <= 20; ++second) {
    did(0, 10, second <= 10 ? 100 : 50, second <= 10 ? 1000 : 3000);
    after(1s);
  }
  const LiveShardState shard = after(0s).shards[0];
  EXPECT_NEAR(shard.step_ms.value_or(0), 50, 1e-9);
  EXPECT_NEAR(shard.sent_per_s, 3000, 1e-9);
  EXPECT_NEAR(shard.received_per_s, 6000, 1e-9);
  EXPECT_EQ(shard.steps, 200);
  // Where none was done lately, a step still takes what it took.
  const LiveShardState idle = after(60s).shards[0];
  EXPECT_NEAR(idle.step_ms.value_or(0), 50, 40);
  EXPECT_NEAR(after(6s).shards[0].sent_per_s, 0, 1e-9);
}

TEST_F(ClusterSamplerTest, WhoIsSlowOrBehindIsSaid) {
  after(0s);
  did(0, 9, 100);
  did(1, 9, 140);
  did(2, 4, 160);
  const LiveClusterState state = after(1s);
  EXPECT_FALSE(state.shards[0].slow);
  EXPECT_FALSE(state.shards[1].slow);
  EXPECT_FALSE(state.shards[2].slow);  // 1.5 times the median are 210
  EXPECT_EQ(state.shards[0].behind, 0);
  EXPECT_EQ(state.shards[2].behind, 5);
  did(2, 5, 1000);
  EXPECT_TRUE(after(1s).shards[2].slow);
}

TEST_F(ClusterSamplerTest, OfTwoTheSlowerCanBeSlow) {
  cluster_.shards.resize(2);
  did(0, 1, 100);
  did(1, 1, 1000);
  const LiveClusterState state = after(1s);
  EXPECT_FALSE(state.shards[0].slow);
  EXPECT_TRUE(state.shards[1].slow);
}

TEST_F(ClusterSamplerTest, OnlyWhoIsAwaitedIsMissed) {
  for (std::size_t i = 0; i < 3; ++i) did(i, 1, i == 2 ? 2000 : 100);
  cluster_.shards[1].awaited = cluster_.shards[2].awaited = true;
  const LiveClusterState soon = after(2s);
  for (const LiveShardState& shard : soon.shards) EXPECT_FALSE(shard.missed);
  const LiveClusterState later = after(3s);
  EXPECT_FALSE(later.shards[0].missed);
  EXPECT_TRUE(later.shards[1].missed);
  EXPECT_FALSE(later.shards[2].missed);  // its steps are long
  EXPECT_NEAR(later.shards[1].silent_s.value_or(0), 5, 1e-9);
  EXPECT_TRUE(after(2s).shards[2].missed);
}

// While the manager evaluates it tells nothing: that is nobody's silence.
TEST_F(ClusterSamplerTest, SilenceIsThatOfTheShardNotOfWhoTells) {
  did(0, 1, 100);
  cluster_.shards[0].awaited = true;
  after(1s);
  const LiveClusterState state = sampler_.sample(cluster_, now_ + 60s);
  EXPECT_NEAR(state.shards[0].silent_s.value_or(0), 1, 1e-9);
  EXPECT_FALSE(state.shards[0].missed);
}

TEST_F(ClusterSamplerTest, ShardsMayBecomeKnownLater) {
  cluster_.shards.clear();
  EXPECT_TRUE(after(1s).shards.empty());
  cluster_.shards.resize(2);
  did(1, 1, 10, 100);
  EXPECT_EQ(after(1s).shards[1].sent_per_s, 0);  // since when is not known
}

}  // namespace
}  // namespace trifold
