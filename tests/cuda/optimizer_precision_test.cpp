// The CUDA backend's updates differ from exact ones by the rounding of weights and states only.
#include "support/optimizer_precision.h"

#include <gtest/gtest.h>

#include "kernels/gpu_plugin.h"

namespace trifold::test {
namespace {

class CudaOptimizerPrecision : public ::testing::TestWithParam<OptimizerPrecisionCase> {};

TEST_P(CudaOptimizerPrecision, RoundsWeightsAndStatesOnly) {
  GpuPlugin& plugin = *find_gpus().plugin;
  const UpdateErrors errors = update_errors({plugin.backend(false), &plugin.device(0)}, GetParam().args);
  EXPECT_LE(errors.first, kFirstUpdateUlps);
  EXPECT_LE(errors.tenth, kTenthUpdateUlps);
}

TEST(CudaOptimizerPrecisionOfAverages, DecayAtTheirExactRate) {
  GpuPlugin& plugin = *find_gpus().plugin;
  const ComparedBackend tested{plugin.backend(false), &plugin.device(0)};
  EXPECT_LE(decay_error(tested, {.momentum = 0.999}), kDecayTolerance);
  EXPECT_LE(decay_error(tested, {.kind = OptimizerKind::lars, .momentum = 0.999}), kDecayTolerance);
  EXPECT_LE(decay_error(tested, {.kind = OptimizerKind::adamw, .beta1 = 0.999, .beta2 = 0.99999}), kDecayTolerance);
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaOptimizerPrecision, ::testing::ValuesIn(optimizer_precision_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace trifold::test
