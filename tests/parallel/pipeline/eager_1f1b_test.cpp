// What eager 1F1B is for: messages that take as long as a piece of work delay no stage once the pipeline is filled.
#include <gtest/gtest.h>

#include "parallel/pipeline/pipeline_timeline.h"

namespace trifold {
namespace {

Pipeline pipeline_of(const char* schedule, int stages, int micro_batches) {
  return {.schedule = &pipeline_schedule(schedule), .stages = stages, .micro_batches = micro_batches};
}

std::string order_of_stage(const Pipeline& pipeline, int stage) {
  std::string text;
  for (const Action& action : actions_of(pipeline, stage)) text += (text.empty() ? "" : " ") + to_string(action);
  return text;
}

TEST(EagerOneForwardOneBackward, RunsTwoMoreForwardsAheadThanTheNextStage) {
  const Pipeline pipeline = pipeline_of("eager-1f1b", 3, 6);
  EXPECT_EQ(order_of_stage(pipeline, 0), "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5");
  EXPECT_EQ(order_of_stage(pipeline, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(order_of_stage(pipeline, 2), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
}

TEST(EagerOneForwardOneBackward, HidesMessages) {
  constexpr double kTransfer = 1;
  const auto total = [&](const char* schedule, int stages, int micro_batches) {
    const std::vector<StageCost> costs(static_cast<std::size_t>(stages), {1, 0.5, 0.5});
    return play(pipeline_of(schedule, stages, micro_batches), costs, kTransfer).total;
  };
  for (int p = 2; p <= 6; ++p)
    for (int m = 2 * p; m <= 32; ++m) {
      SCOPED_TRACE(::testing::Message() << p << " stages, " << m << " micro-batches");
      // Only the first micro-batch on its way to the last stage, and the last on its way back, are waited for.
      EXPECT_DOUBLE_EQ(total("eager-1f1b", p, m), 2.0 * m + (p - 1) * (2 + 2 * kTransfer));
      EXPECT_LT(total("eager-1f1b", p, m), total("1f1b", p, m));
    }
}

}  // namespace
}  // namespace trifold
