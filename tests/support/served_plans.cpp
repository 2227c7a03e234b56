#include "support/served_plans.h"

namespace trifold::test {

const std::vector<ServedPlan>& served_plans() {
  static const std::vector<ServedPlan> kPlans = {
      {"single", {}},
      {"accumulate", {}, 2},
      {"dp2", {.dp = 2}},
      {"dp2_buckets", {.dp = 2, .bucket_bytes = 2000}},
      {"dp2_accumulate", {.dp = 2}, 2},
      {"tp2", {.tp = 2}},
      {"tp2_rows", {.tp = 2, .split = {{"*", "rows"}}}},
      {"tp2_out", {.tp = 2, .split = {{"*", "none"}, {"*conv[0-9]*", "out_channels"}}}},
      {"tp4_blocks", {.tp = 4, .split = {{"*", "none"}, {"fc1", "blocks"}}}},
      {"dp2_tp2", {.dp = 2, .tp = 2}},
      {"pp2", {.pp = 2}},
      {"pp2_micro_batches", {.pp = 2, .micro_batches = 4}},
      {"pp3_zero_bubble", {.pp = 3, .schedule = "zero-bubble", .micro_batches = 4}},
      {"pp2_interleaved", {.pp = 2, .schedule = "interleaved", .micro_batches = 4, .chunks = 2}},
      {"dp2_tp2_pp2", {.dp = 2, .tp = 2, .pp = 2, .micro_batches = 2}}};
  return kPlans;
}

FoldOptions plain_sgd(std::int64_t accumulate) {
  FoldOptions options;
  options.accumulate = accumulate;
  options.learning_rate = kServedRate;
  options.steps = kServedSteps;
  return options;
}

}  // namespace trifold::test
