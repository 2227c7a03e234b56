#include "insight/compare/step_timeline.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

TEST(StepTimeline, ShowsEveryMicroBatchOfEveryStageInOrder) {
  const Job job = fold_job(small_resnet(), {.pp = 2, .schedule = "zero-bubble", .micro_batches = 4}, {});
  ParallelModel model(job);
  model.initialize(3);
  std::vector<SpanLog> logs(2);
  model.time_steps(true, logs);
  step_fold(model, job, 0, 0.01);
  const StepTimeline timeline = step_timeline(model, logs);
  ASSERT_EQ(timeline.size(), 2U);
  double first = 1e9;
  for (const auto& spans : timeline) {
    std::map<std::string, std::set<int>> seen;
    double end = 0;
    for (const TimelineSpan& span : spans) {
      EXPECT_LE(end, span.begin_ms) << "spans of a rank do not overlap";
      EXPECT_LE(span.begin_ms, span.end_ms);
      end = span.end_ms;
      seen[span.work].insert(span.micro_batch);
      first = std::min(first, span.begin_ms);
    }
    const std::set<int> all = {0, 1, 2, 3};
    for (const char* work : {"F", "B", "W", "idle"}) EXPECT_EQ(seen[work], all) << work;
    EXPECT_EQ(seen.count("U"), 1U);
  }
  EXPECT_EQ(first, 0);
}

TEST(StepTimeline, OfReplicasHasTheirSum) {
  const Job job = fold_job(small_tutorial(), {.dp = 2}, {});
  ParallelModel model(job);
  model.initialize(3);
  std::vector<SpanLog> logs(2);
  model.time_steps(true, logs);
  step_fold(model, job, 0, 0.01);
  for (const auto& spans : step_timeline(model, logs))
    EXPECT_EQ(std::ranges::count(spans, "comm", &TimelineSpan::work), 1);
}

}  // namespace
}  // namespace trifold::test
