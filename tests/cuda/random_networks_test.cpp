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

INSTANTIATE_TEST_SUITE_P(Seeds, CudaGeneratedNetworks, ::testing::Range(1, 5));

}  // namespace
}  // namespace trifold::test
