#include "parallel/servers/server/held_states.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

SliceState held_state(std::int64_t epoch, std::int64_t version, float value) {
  return {.values = std::make_shared<const std::vector<float>>(1, value), .epoch = epoch, .version = version};
}

void add_cut(SliceState& to, std::int64_t clock) {
  to.cuts.emplace(clock, std::make_shared<const SliceState>());
}

TEST(HeldStates, KeepsTheNewerOfTwoStates) {
  HeldStates held({});
  held.update_replica(0, held_state(1, 5, 50));
  held.update_replica(0, held_state(1, 4, 40));
  EXPECT_EQ(held.find(0)->values->front(), 50);
  held.update_replica(0, held_state(2, 1, 21));  // of a later owner
  EXPECT_EQ(held.find(0)->values->front(), 21);
  EXPECT_EQ(held.find(1), nullptr);
}

TEST(HeldStates, KnowsTheValuesBeforeOnlyOfTheVersionBefore) {
  HeldStates held({});
  held.update_replica(0, held_state(1, 1, 10));
  held.update_replica(0, held_state(1, 2, 20));
  ASSERT_NE(held.find(0)->before, nullptr);
  EXPECT_EQ(held.find(0)->before->front(), 10);
  held.update_replica(0, held_state(1, 4, 40));
  EXPECT_EQ(held.find(0)->before, nullptr);
  held.update_replica(0, held_state(2, 5, 50));
  EXPECT_EQ(held.find(0)->before, nullptr) << "another owner's version 4 may have been another";
}

TEST(HeldStates, KeepsTheNewestCuts) {
  HeldStates held({});
  for (const std::int64_t version : {1, 2, 3, 4, 5}) {
    SliceState next = held_state(1, version, 0);
    add_cut(next, 10 * version);
    held.update_replica(0, std::move(next));
  }
  std::vector<std::int64_t> clocks;
  for (const auto& [clock, kept] : held.find(0)->cuts) clocks.push_back(clock);
  EXPECT_EQ(clocks, (std::vector<std::int64_t>{30, 40, 50}));
}

TEST(HeldStates, DropsAllButThoseToKeep) {
  HeldStates held({{0, held_state(1, 1, 0)}, {1, held_state(1, 1, 1)}, {2, held_state(1, 1, 2)}});
  held.drop_unless([](int slice) { return slice == 1; });
  EXPECT_EQ(held.all().size(), 1u);
  EXPECT_EQ(held.take_all().begin()->first, 1);
  EXPECT_TRUE(held.all().empty());
}

}  // namespace
}  // namespace trifold
