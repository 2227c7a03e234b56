// A fixed few hundred generated jobs; tools/dev/fuzz_networks tries new ones. Each test is a run of seeds.
#include <map>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "networks/random_job.h"
#include "networks/shrink.h"
#include "runtime/config/optimizer_types.h"

namespace trifold::test {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeedsEach = 1;  // what is computed is the same: only the memory is looked at
#else
constexpr std::uint64_t kSeedsEach = 10;
#endif
constexpr int kRuns = 15;
constexpr double kShrinkSeconds = 60;

void expect_right(const JobJson& job, std::uint64_t seed) {
  const std::string wrong = what_is_wrong(job, seed);
  if (wrong.empty()) return;
  const JobJson least = shrink(job, seed, kShrinkSeconds);
  ADD_FAILURE() << "seed " << seed << ": " << wrong << "\nthe smallest job that fails: " << what_is_wrong(least, seed)
                << "\n"
                << least.dump(2);
}

class GeneratedNetworks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::warn); }  // what each job would say of its precision
  void TearDown() override { spdlog::set_level(spdlog::level::info); }
  static std::uint64_t first_seed() { return static_cast<std::uint64_t>(GetParam()) * 1000; }
};

TEST_P(GeneratedNetworks, TrainAsThePlainNetwork) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + kSeedsEach; ++seed)
    expect_right(random_job(seed), seed);
}

TEST_P(GeneratedNetworks, TrainAsThePlainNetworkUnderPlans) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + kSeedsEach; ++seed) {
    JobJson job = random_job(seed);
    job["plan"] = random_plan(parse_generated(job), seed);
    expect_right(job, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GeneratedNetworks, ::testing::Range(1, kRuns + 1));

// Seed 5030089, under plans: one tensor rank has 3 rows and the other 4, so by their bytes each would keep something
// else for backward work. What they repeat there must not be a meeting for one and nothing for the other.
TEST(Networks, WithUnequalRowsRepeatTheSameExchangesOnEveryRank) {
  const JobJson job = JobJson::parse(R"({
    "name": "unequal_rows",
    "model": {"input": [4, 7, 4], "classes": 2, "layers": [
      {"id": "drop", "type": "dropout"},
      {"id": "a", "type": "sigmoid"},
      {"id": "b", "type": "sigmoid"},
      {"id": "flat", "type": "flatten"},
      {"id": "fc", "type": "linear", "out": 2}]},
    "data": {"type": "synthetic", "train_samples": 8, "test_samples": 4},
    "train": {"epochs": 1, "batch": 4, "precision": "fp16", "optimizer": {"type": "adagrad", "lr": 0.01}},
    "plan": {"tp": 2, "pp": 2, "micro_batches": 2, "schedule": "gpipe", "recompute": "all",
             "split": [{"match": "a", "by": "rows"}, {"match": "b", "by": "rows"}, {"match": "fc", "by": "in_channels"}]}
    })");
  expect_right(job, 1);
}

// Every layer, optimiser, precision and axis of plans is drawn.
TEST(RandomJobs, HaveEveryLayerAndEveryAxis) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 1; seed <= 2400; ++seed) {
    const JobJson json = random_job(seed);
    const Job job = parse_generated(json);
    for (const LayerSpec& layer : job.model.layers) ++seen[layer.type];
    ++seen[optimizer_type(job.train.optimizer.kind).name];
    ++seen[precision_name(job.train.precision)];
    const JobJson plan = random_plan(job, seed);
    for (const char* axis : {"dp", "tp", "pp", "micro_batches"})
      if (plan[axis] > 1) ++seen[axis];
    for (const auto& [key, value] : plan.items())
      if (key == "zero" || key == "schedule") ++seen[key + " " + value.dump()];
    if (plan.contains("sync")) ++seen["parameter servers"];
    if (plan.contains("split"))
      for (const JobJson& split : plan["split"]) ++seen["by " + split["by"].get<std::string>()];
  }
  for (const auto& [name, type] : layer_types()) EXPECT_GT(seen[name], 0) << name;
  for (const char* what : {"fp32", "fp16", "bf16", "dp", "tp", "pp", "micro_batches", "zero 1", "zero 2", "zero 3",
                           "by out_channels", "by in_channels", "by groups", "by rows", "by blocks"})
    EXPECT_GT(seen[what], 0) << what;
  for (const OptimizerType& type : optimizer_types()) EXPECT_GT(seen[type.name], 0) << type.name;
  for (const PipelineSchedule& schedule : pipeline_schedules())
    EXPECT_EQ(seen[fmt::format("schedule \"{}\"", schedule.name)] > 0, !schedule.updates_every_micro_batch)
        << schedule.name;
}

TEST(RandomJobs, AreTheSameForTheSameSeed) {
  const JobJson job = random_job(17);
  EXPECT_EQ(job, random_job(17));
  EXPECT_NE(job["model"], random_job(18)["model"]);
}

}  // namespace
}  // namespace trifold::test
