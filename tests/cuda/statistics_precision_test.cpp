// Batch norm's statistics on the GPU keep their digits wherever the mean is, in NCHW, NHWC and [N, C], and joined from
// parts.
#include "support/statistics_precision.h"

#include <gtest/gtest.h>

#include "kernels/gpu_plugin.h"

namespace trifold::test {
namespace {

void expect_precise(const StatisticsValues& values, StatisticsPath path = StatisticsPath::whole) {
  GpuPlugin& plugin = *find_gpus().plugin;
  SCOPED_TRACE(::testing::Message() << to_string(values.x) << ", mean over deviation " << values.mean_over_std);
  const StatisticsErrors errors = statistics_errors({plugin.backend(false), &plugin.device(0)}, values, path);
  EXPECT_LE(errors.largest(), statistics_limit(values, path)) << errors;
}

TEST(CudaStatisticsPrecision, WithinThreeUlps) {
  for (const double ratio : kMeansOverStd)
    for (const TensorDesc& x :
         {TensorDesc{{8, 16, 28, 28}}, TensorDesc{{8, 16, 28, 28}, DType::f32, {Order::channel_block, 16}},
          TensorDesc{{4, 5, 57, 57}}, TensorDesc{{256, 37}}})
      expect_precise({.x = x, .group = x.shape.batch() / 2, .mean_over_std = ratio});
}

TEST(CudaStatisticsPrecision, OfImagesWithBlackEdges) {
  for (const double ratio : {1.0, 4.0, 30.0, 1e3})
    for (const TensorDesc& x : {TensorDesc{{8, 3, 28, 28}}, TensorDesc{{6, 3, 32, 32}},
                                TensorDesc{{8, 16, 28, 28}, DType::f32, {Order::channel_block, 16}}})
      expect_precise({.x = x, .group = x.shape.batch(), .mean_over_std = ratio, .black_edges = true});
}

TEST(CudaStatisticsPrecision, JoinedFromParts) {
  for (const double ratio : kMeansOverStd)
    for (const StatisticsPath path : {StatisticsPath::replicas, StatisticsPath::rows})
      expect_precise({.x = {{8, 5, 17, 17}}, .group = 8, .mean_over_std = ratio}, path);
}

}  // namespace
}  // namespace trifold::test
