#include "parallel/rank_team.h"

#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/parallel.h"
#include "parallel/rank_groups.h"

namespace trifold {
namespace {

TEST(RankTeamTest, RunsEveryRankOnAThreadOfItsOwn) {
  RankTeam team({.ranks = 4, .threads = 1});
  std::mutex mutex;
  std::map<int, std::thread::id> first, second;
  for (auto* seen : {&first, &second})
    team.run([&](int rank) {
      EXPECT_EQ(thread_count(), 1);
      const std::lock_guard lock(mutex);
      seen->emplace(rank, std::this_thread::get_id());
    });
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(first, second) << "a rank keeps its thread";
  EXPECT_EQ(first.at(0), std::this_thread::get_id());
}

TEST(RankTeamTest, AFailureEndsTheOthersAndIsThrownOnce) {
  auto ranks = make_local_ranks({.data = 3});
  RankTeam team({.ranks = 3, .threads = 1, .on_failure = [&](const std::string& why) {
                   for (const auto& rank : ranks) rank->abort(why);
                 }});
  const auto work = [&](int rank) {
    if (rank == 1) fail_runtime("out of luck");
    ranks[static_cast<std::size_t>(rank)]->along(Axis::data).barrier();
  };
  try {
    team.run(work);
    FAIL() << "rank 1 failed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "out of luck");
  }
  // The group stays ended: nobody waits for a rank that is gone.
  EXPECT_THROW(team.run([&](int rank) { ranks[static_cast<std::size_t>(rank)]->along(Axis::data).barrier(); }), Error);
}

TEST(RankGroupsTest, AnAxisJoinsRanksThatDifferInItAlone) {
  const Mesh mesh{.data = 2, .pipeline = 2, .tensor = 2};
  auto ranks = make_local_ranks(mesh);
  RankTeam team({.ranks = 8, .threads = 1});
  for (const Axis axis : {Axis::data, Axis::tensor, Axis::pipeline}) {
    std::vector<float> sums(8);
    team.run([&](int rank) {
      sums[static_cast<std::size_t>(rank)] = static_cast<float>(1 << rank);
      Communicator& group = ranks[static_cast<std::size_t>(rank)]->along(axis);
      EXPECT_EQ(group.rank(), place_of(mesh, rank).along(axis));
      group.wait(group.all_reduce({&sums[static_cast<std::size_t>(rank)], 1}));
    });
    for (int rank = 0; rank < 8; ++rank) {
      float expected = 0;
      for (int other = 0; other < 8; ++other) {
        MeshPlace a = place_of(mesh, rank), b = place_of(mesh, other);
        (axis == Axis::data ? a.data : axis == Axis::tensor ? a.tensor : a.pipeline) = 0;
        (axis == Axis::data ? b.data : axis == Axis::tensor ? b.tensor : b.pipeline) = 0;
        if (a == b) expected += static_cast<float>(1 << other);
      }
      EXPECT_EQ(sums[static_cast<std::size_t>(rank)], expected) << name_of(axis) << " " << rank;
    }
  }
}

}  // namespace
}  // namespace trifold
