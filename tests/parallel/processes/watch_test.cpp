// Processes in sight of each other; here they are threads of one process, each with its own watch.
#include "parallel/processes/watch.h"

#include <memory>

#include <gtest/gtest.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;

class WatchTest : public ::testing::Test {
 protected:
  void start(int size) {
    LineListener listener({.port = 0, .this_machine_only = true});
    std::vector<std::vector<LineSocket>> connections(static_cast<std::size_t>(size));
    std::vector<std::thread> callers;
    for (int rank = 1; rank < size; ++rank)
      callers.emplace_back([&, rank] {
        connections[static_cast<std::size_t>(rank)] = meet_first("127.0.0.1", listener.port(), rank, "secret");
      });
    LineSocket stranger = connect_to("127.0.0.1", listener.port(), 1s);
    stranger.send("who is there?");
    connections[0] = meet_others(listener, size, "secret");
    for (std::thread& caller : callers) caller.join();
    for (int rank = 0; rank < size; ++rank)
      watches_.push_back(
          std::make_unique<Watch>(Watch::Args{.process = rank,
                                              .processes = size,
                                              .connections = std::move(connections[static_cast<std::size_t>(rank)]),
                                              .say = [this, rank](const std::string& reason) { said(rank, reason); },
                                              .may_exit = false}));
  }

  Watch& watch(int rank) { return *watches_[static_cast<std::size_t>(rank)]; }
  void lose(int rank) { watches_[static_cast<std::size_t>(rank)].reset(); }

  // Why the job ended for this rank, once it has.
  std::string end_of(int rank) {
    for (int i = 0; i < 1000 && !watch(rank).ended(); ++i) std::this_thread::sleep_for(5ms);
    try {
      watch(rank).stop_if_ended();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::vector<std::string> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  void said(int rank, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    told_.push_back(fmt::format("rank {}: {}", rank, reason));
  }

  std::mutex mutex_;
  std::vector<std::string> told_;
  std::vector<std::unique_ptr<Watch>> watches_;
};

TEST_F(WatchTest, ALostRankEndsTheJobOfAllAndIsNamed) {
  start(3);
  watch(2).at_step(17);
  std::this_thread::sleep_for(500ms);  // steps are told now and then
  lose(2);
  const std::string reason = "rank 2 was lost; step 17 was the last that it reported";
  EXPECT_EQ(end_of(0), reason);
  EXPECT_EQ(end_of(1), reason);
  EXPECT_EQ(told(), std::vector<std::string>{"rank 0: " + reason});
}

TEST_F(WatchTest, AProcessOfSeveralRanksIsNamedByThem) {
  start(2);
  for (const int process : {0, 1}) watch(process).set_placement({.processes = 2, .ranks_each = 2});
  lose(1);
  EXPECT_EQ(end_of(0), "process 1 (ranks 2 and 3) was lost; step 0 was the last that it reported");
}

TEST_F(WatchTest, AStallOfSeveralRanksAProcessIsReportedByRank) {
  start(2);
  for (const int process : {0, 1}) watch(process).set_placement({.processes = 2, .ranks_each = 2});
  watch(1).set_status([] {
    RankStatus waits;
    waits.waiting = {.what = "all_reduce of 40 bytes", .group = "data 1 3", .call = 1, .ranks = {1, 3}};
    return std::map<int, RankStatus>{{3, waits}};
  });
  watch(1).stalled(30);
  EXPECT_EQ(end_of(0),
            "ranks have waited 30 s for each other: rank 0 waits for nobody, step 0 was its last; rank 1 waits for "
            "nobody, step 0 was its last; rank 2 waits for nobody, step 0 was its last; rank 3 waits in all_reduce of "
            "40 bytes for rank 1, step 0 was its last");
}

TEST_F(WatchTest, AnotherSpeaksWhenTheFirstIsLost) {
  start(3);
  watch(1).at_step(4);
  lose(0);
  EXPECT_EQ(end_of(1), "rank 0 was lost; step 4 was the last of rank 1");
  EXPECT_EQ(end_of(2), "rank 0 was lost; step 0 was the last of rank 2");
  EXPECT_EQ(told(), std::vector<std::string>{"rank 1: rank 0 was lost; step 4 was the last of rank 1"});
}

TEST_F(WatchTest, AFailureIsToldOnceByTheFirst) {
  start(3);
  watch(1).fail(Fault::runtime, "rank 1 failed: disk full");
  EXPECT_EQ(end_of(0), "rank 1 failed: disk full");
  EXPECT_EQ(end_of(1), "rank 1 failed: disk full");
  EXPECT_EQ(end_of(2), "rank 1 failed: disk full");
  EXPECT_EQ(told(), std::vector<std::string>{"rank 0: rank 1 failed: disk full"});
}

TEST_F(WatchTest, AStallIsReportedWithWhatEveryRankDoes) {
  start(2);
  watch(0).set_status([] {
    RankStatus status;
    status.calls["data 0 1"] = 7;
    return std::map<int, RankStatus>{{0, status}};
  });
  watch(1).set_status([] {
    RankStatus status;
    status.waiting = {.what = "all_reduce of 40 bytes", .group = "data 0 1", .call = 8, .ranks = {0, 1}};
    status.calls["data 0 1"] = 8;
    return std::map<int, RankStatus>{{1, status}};
  });
  watch(0).at_step(5);
  watch(1).at_step(6);
  watch(1).stalled(30);
  const std::string report =
      "ranks have waited 30 s for each other: rank 0 waits for nobody, step 5 was its last; rank 1 waits in all_reduce "
      "of 40 bytes for rank 0, step 6 was its last";
  EXPECT_EQ(end_of(0), report);
  EXPECT_EQ(end_of(1), report);
}

TEST_F(WatchTest, WhoLeavesIsNotLost) {
  start(3);
  for (const int rank : {1, 0, 2}) watch(rank).leave();
  for (const int rank : {1, 0, 2}) lose(rank);
  EXPECT_EQ(told(), std::vector<std::string>{});
}

TEST_F(WatchTest, TheFirstGivesTheOthersTexts) {
  start(2);
  watch(0).publish("port", "tcp://here\nand there");
  EXPECT_EQ(watch(1).look_up("port", 5s), "tcp://here\nand there");
  EXPECT_THROW(watch(1).look_up("nothing", 20ms), Error);
}

TEST(StallReport, ARankThatDoesNotAnswerIsNamed) {
  RankStatus waits;
  waits.waiting = {.what = "receive of 16 bytes from rank 1", .group = "", .call = 0, .ranks = {1}};
  const std::vector<std::optional<RankStatus>> ranks = {waits, std::nullopt};
  const std::vector<std::int64_t> steps = {3, 2};
  EXPECT_EQ(stall_report(ranks, steps, 60),
            "ranks have waited 60 s for each other: rank 0 waits in receive of 16 bytes from rank 1 for rank 1, step 0 "
            "was its last; rank 1 does not answer, step 2 was its last");
}

}  // namespace
}  // namespace trifold
