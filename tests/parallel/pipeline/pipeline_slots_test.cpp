#include "parallel/pipeline/pipeline_slots.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "parallel/pipeline/pipeline_timeline.h"

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
  for (const PipelineSchedule kind : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                      PipelineSchedule::zero_bubble_h1, PipelineSchedule::zero_bubble_h2})
    for (int stages = 1; stages <= 4; ++stages)
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches)
        for (int stage = 0; stage < stages; ++stage) expect_no_slot_taken_twice({kind, stages, micro_batches}, stage);
  for (int stage = 0; stage < 3; ++stage) expect_no_slot_taken_twice({PipelineSchedule::interleaved, 3, 6, 2}, stage);
}

TEST(PipelineSlots, AreAsManyAsTheScheduleHolds) {
  for (int stages = 2; stages <= 4; ++stages)
    for (int micro_batches = 1; micro_batches <= 8; ++micro_batches) {
      const Pipeline pipeline{PipelineSchedule::one_f_one_b, stages, micro_batches};
      for (int stage = 0; stage < stages; ++stage)
        EXPECT_EQ(assign_slots(pipeline, stage).slots[0], std::min(micro_batches, stages - stage));
    }
}

}  // namespace
}  // namespace trifold
