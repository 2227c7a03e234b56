// The CPU backend's updates differ from exact ones by the rounding of weights and states only.
#include "support/optimizer_precision.h"

#include <gtest/gtest.h>

namespace trifold::test {
namespace {

class OptimizerPrecision : public ::testing::TestWithParam<OptimizerPrecisionCase> {};

TEST_P(OptimizerPrecision, CpuRoundsWeightsAndStatesOnly) {
  const UpdateErrors errors = update_errors({cpu_backend()}, GetParam().args);
  EXPECT_LE(errors.first, kFirstUpdateUlps);
  EXPECT_LE(errors.tenth, kTenthUpdateUlps);
}

TEST(OptimizerPrecisionOfAverages, DecayAtTheirExactRate) {
  EXPECT_LE(decay_error({cpu_backend()}, {.momentum = 0.999}), kDecayTolerance);
  EXPECT_LE(decay_error({cpu_backend()}, {.kind = OptimizerKind::lars, .momentum = 0.999}), kDecayTolerance);
  EXPECT_LE(decay_error({cpu_backend()}, {.kind = OptimizerKind::adamw, .beta1 = 0.999, .beta2 = 0.99999}),
            kDecayTolerance);
}

INSTANTIATE_TEST_SUITE_P(Cases, OptimizerPrecision, ::testing::ValuesIn(optimizer_precision_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace trifold::test
