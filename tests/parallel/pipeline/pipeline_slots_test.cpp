#include "parallel/pipeline/pipeline_slots.h"

#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "support/schedules.h"

namespace trifold {
namespace {

void expect_no_slot_taken_twice(const Pipeline& pipeline, int stage) {
  const SlottedActions slotted = assign_slots(pipeline, stage);
  ASSERT_EQ(slotted.slot.size(), slotted.actions.size());
  std::map<std::pair<int, int>, int> holder;  // micro-batch by chunk and slot
  for (std::size_t i = 0; i < slotted.actions.size(); ++i) {
    const Action& action = slotted.actions[i];
    const std::pair place{action.chunk, slotted.slot[i]};
    EXPECT_LT(slotted.slot[i], slotted.slots[static_cast<std::size_t>(action.chunk)]);
    if (action.work == Work::forward) {
      EXPECT_TRUE(holder.emplace(place, action.micro_batch).second) << to_string(action);
    } else {
      ASSERT_TRUE(holder.contains(place));
      EXPECT_EQ(holder[place], action.micro_batch) << to_string(action);
      if (action.work != Work::input_gradient) holder.erase(place);
    }
  }
  EXPECT_TRUE(holder.empty());
}

TEST(PipelineSlots, HoldOneMicroBatchAtATime) {
  for (const Pipeline& pipeline : test::pipelines_of_schedules()) {
    SCOPED_TRACE(test::describe(pipeline));
    for (int stage = 0; stage < pipeline.stages; ++stage) expect_no_slot_taken_twice(pipeline, stage);
  }
}

TEST(PipelineSlots, AreAsManyAsTheScheduleHolds) {
  for (const Pipeline& pipeline : test::pipelines_of_schedules())
    for (int stage = 0; stage < pipeline.stages; ++stage) {
      const std::vector<int> slots = assign_slots(pipeline, stage).slots;
      EXPECT_EQ(std::ssize(slots), pipeline.chunks);
      const int all = std::accumulate(slots.begin(), slots.end(), 0);
      const int held = pipeline.schedule->held(pipeline, stage);
      if (pipeline.chunks == 1)
        EXPECT_EQ(all, held) << test::describe(pipeline) << ", stage " << stage;
      else
        EXPECT_GE(all, held) << test::describe(pipeline) << ", stage " << stage;  // chunks need not peak together
    }
}

}  // namespace
}  // namespace trifold
