#include "insight/profile/machine_roofs.h"

#include <fstream>

#include <gtest/gtest.h>

#include "runtime/checkpoint/temporary_directory.h"

namespace trifold::test {
namespace {

TEST(MachineRoofs, AreMeasuredAndReadBack) {
  const MachineRoofs roofs = measure_roofs(1);
  EXPECT_GT(roofs.fp32_gflops, 0);
  EXPECT_GT(roofs.memory_gbps, 0);
  EXPECT_GT(roofs.cache_gbps, 0);
  EXPECT_GT(roofs.launch_us, 0);
  EXPECT_TRUE(roofs.all_reduce.empty()) << "of one thread";
  EXPECT_EQ(parse_roofs(to_json_text(roofs)), roofs);
  EXPECT_EQ(parse_roofs("{\"machine\": 3}"), std::nullopt);
  EXPECT_EQ(parse_roofs(""), std::nullopt);
}

TEST(MachineRoofs, AreKeptInAFileForAsManyThreads) {
  const testing::TemporaryDirectory directory;
  const auto file = directory / "roofs.json";
  MachineRoofs kept = roofs_of_machine(1, file);
  kept.fp32_gflops = 1e9;  // no machine's
  std::ofstream(file) << to_json_text(kept);
  EXPECT_EQ(roofs_of_machine(1, file), kept);
  EXPECT_LT(roofs_of_machine(2, file).fp32_gflops, 1e9);
  EXPECT_EQ(roofs_of_machine(2, file).all_reduce.size(), 3U);
}

TEST(MachineRoofs, OfTwoMeasurementsTheBetterFiguresCount) {
  const MachineRoofs busy{.fp32_gflops = 10, .memory_gbps = 9, .launch_us = 8, .all_reduce = {{4, 1}}};
  const MachineRoofs quiet{.fp32_gflops = 100, .memory_gbps = 3, .launch_us = 2, .all_reduce = {{4, 5}}};
  const MachineRoofs better = better_of(busy, quiet);
  EXPECT_EQ(better.fp32_gflops, 100);
  EXPECT_EQ(better.memory_gbps, 9);
  EXPECT_EQ(better.launch_us, 2);
  EXPECT_EQ(better.all_reduce.front().gbps, 5);
}

}  // namespace
}  // namespace trifold::test
