// Batch norm's statistics on the CPU keep their digits wherever the mean is, in every layout and joined from parts.
#include "support/statistics_precision.h"

#include <gtest/gtest.h>

namespace trifold::test {
namespace {

void expect_precise(const StatisticsValues& values, StatisticsPath path = StatisticsPath::whole) {
  SCOPED_TRACE(::testing::Message() << to_string(values.x) << ", mean over deviation " << values.mean_over_std);
  const StatisticsErrors errors = statistics_errors({cpu_backend()}, values, path);
  EXPECT_LE(errors.largest(), statistics_limit(values, path)) << errors;
}

TEST(StatisticsPrecision, CpuWithinThreeUlps) {
  const int block = native_block(cpu_backend());
  for (const double ratio : kMeansOverStd) {
    for (const TensorDesc& x : {TensorDesc{{8, 16, 28, 28}}, TensorDesc{{4, 5, 57, 57}}, TensorDesc{{256, 37}}})
      expect_precise({.x = x, .group = x.shape.batch() / 2, .mean_over_std = ratio});
    if (block == 0) continue;
    const TensorDesc blocked{{8, 2L * block, 28, 28}, DType::f32, {Order::channel_block, block}};
    expect_precise({.x = blocked, .group = 4, .mean_over_std = ratio});
  }
}

// The values that sums are taken around must not all come from the edges.
TEST(StatisticsPrecision, CpuOfImagesWithBlackEdges) {
  const int block = native_block(cpu_backend());
  for (const double ratio : {1.0, 4.0, 30.0, 1e3}) {
    for (const TensorDesc& x : {TensorDesc{{8, 3, 28, 28}}, TensorDesc{{6, 3, 32, 32}}, TensorDesc{{2, 5, 57, 57}}})
      expect_precise({.x = x, .group = x.shape.batch(), .mean_over_std = ratio, .black_edges = true});
    if (block == 0) continue;
    const TensorDesc blocked{{8, 2L * block, 28, 28}, DType::f32, {Order::channel_block, block}};
    expect_precise({.x = blocked, .group = 8, .mean_over_std = ratio, .black_edges = true});
  }
}

TEST(StatisticsPrecision, CpuJoinedFromParts) {
  for (const double ratio : kMeansOverStd)
    for (const StatisticsPath path : {StatisticsPath::replicas, StatisticsPath::rows})
      expect_precise({.x = {{8, 5, 17, 17}}, .group = 8, .mean_over_std = ratio}, path);
}

}  // namespace
}  // namespace trifold::test
