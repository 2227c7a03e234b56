#include "runtime/cluster/shard_paces.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

ShardReport report(double ms, std::int64_t staleness, std::int64_t late = 0) {
  return {.samples = 8, .step_ms = ms, .staleness = staleness, .late = late};
}

double value_of(const std::vector<Metric>& metrics, std::string_view name) {
  for (const Metric& metric : metrics)
    if (metric.name == name) return metric.value;
  return -1;
}

TEST(ShardPaces, MarkWhatIsStale) {
  const ServerSync ssp{.consistency = Consistency::ssp, .staleness = 3, .shards = 4};
  ShardPaces paces;
  EXPECT_TRUE(paces.metrics_of_step(ssp).empty());
  EXPECT_TRUE(paces.describe(ssp).empty());
  paces.add({{0, report(10, 0)}, {1, report(10, 3)}, {2, report(10, 1)}, {3, report(40, 0)}});
  EXPECT_EQ(value_of(paces.metrics_of_step(ssp), "staleness_worst"), 3);
  EXPECT_EQ(value_of(paces.metrics_of_step(ssp), "staleness_mean"), 1);
  EXPECT_EQ(value_of(paces.metrics_of_step(ssp), "stale_shards"), 2);
  paces.add({{0, report(10, 0)}, {1, report(10, 0)}, {2, report(10, 0)}, {3, report(20, 0)}});
  EXPECT_EQ(value_of(paces.metrics_of_step(ssp), "staleness_worst"), 0);
  EXPECT_EQ(paces.describe(ssp),
            (std::vector<std::string>{"slow shards: 3 (30 ms); the median takes 10 ms a step",
                                      "stale values: in 25 % of the shards' steps, at most 3 clocks old (bound 3)"}));
}

TEST(ShardPaces, NameWhoseRoundsEndWithoutThem) {
  const ServerSync backup{.shards = 3, .backup = 1};
  ShardPaces paces;
  paces.add({{0, report(10, 0)}, {1, report(12, 0, 5)}, {2, report(11, 0, 2)}});
  EXPECT_EQ(value_of(paces.metrics_of_step(backup), "late_slices"), 7);
  EXPECT_EQ(value_of(paces.metrics_of_step(backup), "staleness_worst"), -1);
  EXPECT_EQ(paces.describe(backup), (std::vector<std::string>{"late pushes: 7 slices, 5 of them of shard 1"}));
}

TEST(ShardPaces, SayNothingOfShardsThatKeepStep) {
  const ServerSync sync{.shards = 2};
  ShardPaces paces;
  paces.add({{0, report(10, 0)}, {1, report(12, 0)}});
  EXPECT_TRUE(paces.metrics_of_step(sync).empty());
  EXPECT_TRUE(paces.describe(sync).empty());
}

}  // namespace
}  // namespace trifold
