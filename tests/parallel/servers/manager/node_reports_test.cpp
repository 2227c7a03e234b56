#include "parallel/servers/manager/node_reports.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;
using Fields = nlohmann::json;

Fields compared(double distance) {
  return {{"compared", true}, {"distance", distance}};
}

TEST(NodeReportsTest, WaitsForAllShardsAndKeepsTheFirstOfEach) {
  NodeReports nodes({.shards = 2}, 0);
  EXPECT_FALSE(nodes.take(0, 3, Fields{{"loss", 1.0}}));  // of the clock itself
  EXPECT_TRUE(nodes.take(0, 3, compared(0.5)));
  EXPECT_FALSE(nodes.wait_for_differences(3, 0ms));
  nodes.take(0, 3, Fields{{"compared", false}});  // whoever took the shard over knows nothing
  nodes.take(1, 3, Fields{{"compared", true}, {"distance", 0.25}, {"kl", 0.125}});
  EXPECT_TRUE(nodes.wait_for_differences(3, 0ms));
  const auto differences = nodes.take_differences(3);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences.at(0).distance, 0.5);
  EXPECT_EQ(differences.at(0).kl, std::nullopt);
  EXPECT_EQ(differences.at(1).kl, 0.125);
}

TEST(NodeReportsTest, WhoeverWentOnWillNotTell) {
  NodeReports nodes({.shards = 2}, 0);
  nodes.take(0, 3, compared(0.5));
  nodes.take(1, 4, Fields{{"loss", 1.0}});  // what it told was lost with another manager
  EXPECT_TRUE(nodes.wait_for_differences(3, 0ms));
  EXPECT_EQ(nodes.take_differences(3).size(), 1u);
}

TEST(NodeReportsTest, BackupWorkersAndThoseThatTakeNoPartAreNotWaitedFor) {
  NodeReports backed({.shards = 3}, 1);
  backed.take(0, 0, compared(0.5));
  EXPECT_FALSE(backed.wait_for_differences(0, 0ms));
  backed.take(2, 0, compared(0.5));
  EXPECT_TRUE(backed.wait_for_differences(0, 0ms));

  const Participation half{.shards = 4, .fraction = 0.5};
  NodeReports sampled(half, 0);
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(sampled.wait_for_differences(7, 0ms), false);
    if (half.in_round(7)[static_cast<std::size_t>(shard)]) sampled.take(shard, 7, compared(1));
    if (sampled.wait_for_differences(7, 0ms)) break;
  }
  EXPECT_EQ(sampled.take_differences(7).size(), 2u);
}

}  // namespace
}  // namespace trifold
