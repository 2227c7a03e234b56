#include "core/parallel.h"

#include <vector>

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(Parallel, SharesCoverEverythingOnce) {
  for (const std::int64_t count : {0, 1, 7, 64, 1000})
    for (const int parts : {1, 2, 3, 8})
      for (const std::int64_t grain : {1, 16}) {
        std::int64_t next = 0;
        for (int part = 0; part < parts; ++part) {
          const Range range = share(count, part, parts, grain);
          EXPECT_EQ(range.begin, next);
          EXPECT_TRUE(range.begin == count || range.begin % grain == 0);
          next = range.end;
        }
        EXPECT_EQ(next, count);
      }
}

TEST(Parallel, EveryThreadRunsOnceAndItsWorkIsSeen) {
  const int before = thread_count();
  for (const int threads : {1, 2, 4}) {
    set_thread_count(threads);
    std::vector<int> calls(static_cast<std::size_t>(threads), 0);
    for (int round = 0; round < 50; ++round)
      parallel([&](int thread, int team) {
        EXPECT_EQ(team, threads);
        ++calls[static_cast<std::size_t>(thread)];
      });
    for (const int count : calls) EXPECT_EQ(count, 50);
  }
  set_thread_count(before);
}

TEST(Parallel, ForCoversTheRange) {
  std::vector<int> touched(1001, 0);
  parallel_for(1001, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) ++touched[static_cast<std::size_t>(i)];
  });
  for (const int count : touched) ASSERT_EQ(count, 1);
}

}  // namespace
}  // namespace trifold
