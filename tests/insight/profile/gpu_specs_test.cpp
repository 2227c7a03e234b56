// What data sheets allow: occupancy by what a block takes, and the limit that holds a piece of work.
#include "insight/profile/gpu_specs.h"

#include <gtest/gtest.h>

namespace trifold::test {
namespace {

const GpuSpec& a100() {
  return *find_gpu_spec("a100");
}

// By NVIDIA's occupancy calculator.
TEST(GpuSpecs, OccupancyIsOfWhatRunsOutFirst) {
  EXPECT_EQ(occupancy_of(a100(), {.threads = 256, .registers = 32}), 1.0);
  EXPECT_EQ(occupancy_of(a100(), {.threads = 256, .registers = 64}), 0.5) << "32 warps' registers";
  EXPECT_EQ(occupancy_of(a100(), {.threads = 1024, .registers = 40}), 0.5) << "a second block does not fit";
  EXPECT_EQ(occupancy_of(a100(), {.threads = 32, .registers = 16}), 0.5) << "32 blocks of one warp";
  EXPECT_EQ(occupancy_of(a100(), {.threads = 256, .registers = 32, .shared_bytes = 48 << 10}), 3 * 8 / 64.0);
  EXPECT_EQ(occupancy_of(*find_gpu_spec("t4"), {.threads = 256, .registers = 32, .shared_bytes = 32 << 10}),
            2 * 8 / 32.0);
  EXPECT_EQ(occupancy_of(a100(), {.threads = 256}), 1.0) << "registers not known: no limit";
  EXPECT_EQ(occupancy_of(a100(), {}), 0.0) << "no block, nothing to say";
}

TEST(GpuSpecs, ThePieceThatTakesLongestIsTheLimit) {
  const auto bound = [](const GpuWork& work) { return std::string(limit_of(a100(), work).bound); };
  EXPECT_EQ(bound({.flops = 1e12, .bytes = 1e6, .launches = 1}), "compute");
  EXPECT_EQ(bound({.flops = 1e6, .bytes = 1e9, .launches = 1}), "memory");
  EXPECT_EQ(bound({.bytes = 1e3, .warp_instructions = 1e9, .launches = 1}), "instructions");
  EXPECT_EQ(bound({.bytes = 1e3, .launches = 1}), "latency");
  EXPECT_EQ(bound({.launches = 1, .link_bytes = 1e9}), "link");
  EXPECT_EQ(bound({.host_bytes = 1e6}), "host link");
  const GpuLimit limit = limit_of(a100(), {.flops = 19.5e9, .bytes = 1, .launches = 1});
  EXPECT_NEAR(limit.ms, 1, 1e-9) << "19.5 TFLOP/s for a millisecond";
  EXPECT_EQ(limit.roof_ms, limit.ms);
  EXPECT_NEAR(limit_of(a100(), {.flops = 312e9, .tensor_cores = true}).ms, 1, 1e-9);
  EXPECT_NEAR(limit_of(a100(), {.bytes = 2039e6}).ms, 1, 1e-9);
}

TEST(GpuSpecs, AreFoundByTheDriversNames) {
  EXPECT_STREQ(spec_of_device("NVIDIA A100-SXM4-80GB")->key, "a100");
  EXPECT_STREQ(spec_of_device("NVIDIA A10")->key, "a10");
  EXPECT_STREQ(spec_of_device("NVIDIA L40S")->key, "l40s");
  EXPECT_STREQ(spec_of_device("NVIDIA GeForce RTX 4090")->key, "rtx4090");
  EXPECT_STREQ(spec_of_device("NVIDIA H100 80GB HBM3")->key, "h100");
  EXPECT_STREQ(spec_of_device("Tesla T4")->key, "t4");
  EXPECT_EQ(spec_of_device("NVIDIA L40"), nullptr);
  EXPECT_EQ(spec_of_device("gpusim 7.5"), nullptr);
  EXPECT_EQ(find_gpu_spec("A100"), nullptr) << "keys are in small letters";
}

}  // namespace
}  // namespace trifold::test
