// Generated jobs (tests/networks) on simulated GPUs.
#include <gtest/gtest.h>

#include "networks/random_job.h"
#include "networks/shrink.h"

namespace trifold::test {
namespace {

// On as many ranks as there are simulated GPUs, at most (main.cpp).
JobJson plan_of_few_ranks(const JobJson& json, std::uint64_t seed) {
  for (;; ++seed) {
    JobJson plan = random_plan(parse_generated(json), seed);
    if (plan["dp"].get<int>() * plan["tp"].get<int>() * plan["pp"].get<int>() <= 4) return plan;
  }
}

class CudaGeneratedNetworks : public ::testing::TestWithParam<int> {};

TEST_P(CudaGeneratedNetworks, TrainAsThePlainNetwork) {
  const auto first = static_cast<std::uint64_t>(GetParam()) * 1000;
  for (std::uint64_t seed = first; seed < first + 3; ++seed) {
    JobJson job = random_job(seed);
    if (seed % 2 == 0) job["plan"] = plan_of_few_ranks(job, seed);
    job["plan"]["device"] = "cuda";
    EXPECT_EQ(what_is_wrong(job, seed), "") << "seed " << seed << "\n" << job.dump(2);
  }
}

// Each replica has one value per channel of a group that lies on all of them.
TEST(CudaNetworks, JoinBatchNormOfOneValuePerReplica) {
  const JobJson job = JobJson::parse(R"({
    "name": "one_value",
    "model": {"input": [3, 5, 7], "classes": 5, "layers": [
      {"id": "mean", "type": "global_avg_pool"},
      {"id": "fc", "type": "linear", "out": 5},
      {"id": "bn", "type": "batch_norm"}]},
    "data": {"type": "synthetic", "train_samples": 8, "test_samples": 2},
    "train": {"epochs": 1, "batch": 2, "optimizer": {"type": "sgd", "lr": 0.01}},
    "plan": {"dp": 2, "device": "cuda"}})");
  EXPECT_EQ(what_is_wrong(job, 1), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaGeneratedNetworks, ::testing::Range(1, 5));

}  // namespace
}  // namespace trifold::test
