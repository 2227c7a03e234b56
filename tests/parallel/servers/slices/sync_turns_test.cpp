// When tensors are synchronised that are not so in every clock.
#include "parallel/servers/slices/sync_turns.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace trifold {
namespace {

// A letter a clock: x where it is synchronised.
std::string picture(const SyncTurns& turns, std::int64_t clocks) {
  std::string text;
  for (std::int64_t clock = 0; clock < clocks; ++clock) text += turns.at(clock) ? 'x' : '.';
  return text;
}

TEST(SyncTurnsTest, TensorsTakeTurnsAndAllMeetBeforeACut) {
  EXPECT_EQ(picture({}, 6), "xxxxxx");
  EXPECT_EQ(picture({.every = 3, .turn = 0}, 9), "x..x..x..");
  EXPECT_EQ(picture({.every = 3, .turn = 2}, 9), "..x..x..x");
  EXPECT_EQ(picture({.every = 3, .turn = 1, .all_before = {5}}, 12), ".x..x..x.xx.");
  EXPECT_EQ(picture({.every = 0, .all_before = {5, 3}}, 12), "..x.xx..xx.x");
}

TEST(SyncTurnsTest, AreCounted) {
  const SyncTurns turns{.every = 3, .turn = 1, .all_before = {5}};
  const std::string all = picture(turns, 30);
  for (std::int64_t clock = 0; clock < 30; ++clock)
    EXPECT_EQ(turns.count_before(clock), std::ranges::count(all.substr(0, static_cast<std::size_t>(clock)), 'x'));
  EXPECT_EQ(SyncTurns{}.count_before(7), 7);
}

TEST(SyncTurnsTest, TheNextIsTheFirstFromAClockOn) {
  for (const SyncTurns& turns :
       {SyncTurns{}, SyncTurns{.every = 4, .turn = 3, .all_before = {10}}, SyncTurns{.every = 0, .all_before = {7}}})
    for (std::int64_t clock = 0; clock < 40; ++clock) {
      std::int64_t next = clock;
      while (!turns.at(next)) ++next;
      EXPECT_EQ(turns.next(clock), next);
    }
}

}  // namespace
}  // namespace trifold
