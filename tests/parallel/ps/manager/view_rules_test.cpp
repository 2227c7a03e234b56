// What a manager decides when members come and go.
#include "parallel/ps/manager/view_rules.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

using Names = std::vector<std::string>;

TEST(AssignShardsTest, DividesEvenlyAndKeepsWhatWorkersHave) {
  EXPECT_EQ(assign_shards(Names(4), {"a", "b"}), (Names{"a", "b", "a", "b"}));
  EXPECT_EQ(assign_shards({"a", "b", "a", "b"}, {"a", "b"}), (Names{"a", "b", "a", "b"}));
}

TEST(AssignShardsTest, ShardsOfTheDeadGoToTheLeastLoaded) {
  EXPECT_EQ(assign_shards({"a", "b", "c", "a"}, {"a", "c"}), (Names{"a", "c", "c", "a"}));
  EXPECT_EQ(assign_shards({"a", "b"}, {}), Names(2));
}

TEST(AssignShardsTest, AWorkerThatJoinsGetsItsShareAndNoMoreIsMoved) {
  EXPECT_EQ(assign_shards({"a", "a", "a", "a"}, {"a", "b"}), (Names{"a", "a", "b", "b"}));
  EXPECT_EQ(assign_shards({"a", "b"}, {"a", "b", "c"}), (Names{"a", "b"}));  // it stands by
}

TEST(ChooseSourcesTest, TheNewestVersionWins) {
  const std::map<std::string, HeldVersions> servers = {{"s1", {{0, 5}, {1, 7}}}, {"s2", {{0, 6}, {1, 7}}}};
  EXPECT_EQ(choose_sources(3, servers), (Names{"s2", "s1", ""}));
}

}  // namespace
}  // namespace trifold
