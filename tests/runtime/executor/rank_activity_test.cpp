// What another thread reads of a rank: all parts of one announcement, and the time spent in each kind of work.
#include "runtime/executor/rank_activity.h"

#include <thread>

#include <gtest/gtest.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;

double spent(const RankActivity::Sample& sample, Activity activity) {
  return sample.spent_s[static_cast<std::size_t>(activity)];
}

TEST(RankActivity, BeginsIdle) {
  const RankActivity rank;
  const RankActivity::Sample sample = rank.read();
  EXPECT_EQ(sample.activity, Activity::idle);
  EXPECT_EQ(sample.node, -1);
  EXPECT_LT(sample.seconds, 5);
}

TEST(RankActivity, SaysWhatWhereAndForHowLong) {
  RankActivity rank;
  const auto begin = RankActivity::Clock::now() + 1s;
  rank.enter(3, 17);
  rank.begin(Activity::backward, 260, begin);
  const RankActivity::Sample sample = rank.read(begin + 40ms);
  EXPECT_EQ(sample.activity, Activity::backward);
  EXPECT_EQ(sample.program, 3);
  EXPECT_EQ(sample.micro_batch, 17);
  EXPECT_EQ(sample.node, 260);
  EXPECT_NEAR(sample.seconds, 0.040, 0.0003);
}

TEST(RankActivity, AddsUpTheTimeOfEachKind) {
  RankActivity rank;
  const auto begin = RankActivity::Clock::now() + 1s;
  rank.begin(Activity::forward, 1, begin);
  rank.begin(Activity::communication, 2, begin + 30ms);
  rank.begin(Activity::forward, 3, begin + 40ms);
  rank.begin(Activity::idle, -1, begin + 90ms);
  const RankActivity::Sample sample = rank.read(begin + 100ms);
  EXPECT_NEAR(spent(sample, Activity::forward), 0.080, 1e-9);
  EXPECT_NEAR(spent(sample, Activity::communication), 0.010, 1e-9);
  EXPECT_NEAR(spent(sample, Activity::idle), 1.010, 0.1);  // and the second before; what is under way counts
  EXPECT_EQ(spent(sample, Activity::update), 0);
}

TEST(RankActivity, NumbersTooLargeForTheWordStayTheLargest) {
  RankActivity rank;
  rank.enter(1000, 100'000);
  rank.begin(Activity::device, 10'000'000);
  const RankActivity::Sample sample = rank.read();
  EXPECT_EQ(sample.activity, Activity::device);
  EXPECT_EQ(sample.program, 63);
  EXPECT_EQ(sample.micro_batch, 2047);
  EXPECT_EQ(sample.node, (1 << 18) - 2);
}

TEST(RankActivity, AReaderThatLooksJustBeforeSeesNoAges) {
  RankActivity rank;
  const auto begin = RankActivity::Clock::now();
  rank.begin(Activity::forward, 1, begin + 3ms);
  EXPECT_EQ(rank.read(begin).seconds, 0);
}

TEST(RankActivity, IsReadWhileItIsWritten) {
  RankActivity rank;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 200'000; ++i) {
      rank.enter(static_cast<std::size_t>(i % 50), i % 50);
      rank.begin(Activity::forward, i % 50);
    }
    done = true;
  });
  while (!done) {
    const RankActivity::Sample sample = rank.read();
    if (sample.node < 0) continue;
    EXPECT_EQ(sample.program, sample.node);
    EXPECT_EQ(sample.micro_batch, sample.node);
  }
  writer.join();
}

}  // namespace
}  // namespace trifold
