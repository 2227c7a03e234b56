// Profiles of GPUs as text: measured ones have times, those of simulated GPUs have counts and estimates that say so.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "insight/profile/gpu_rows.h"
#include "insight/profile/profile.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

GpuKernel gemm() {
  return {.name = "gemm",
          .launches = 4,
          .counted = 4,
          .grid = {8, 2, 1},
          .block = {128, 1, 1},
          .registers = 40,
          .shared_bytes = 2048,
          .occupancy = 0.75,
          .total_ms = 6,
          .counts = {.warp_instructions = 100,
                     .lane_instructions = 1600,
                     .read_bytes = 3200,
                     .read_sectors = 150,
                     .write_sectors = 50,
                     .shared_conflicts = 3}};
}

Profile made_up(bool simulated) {
  Profile profile{.job = "net", .batch = 16, .steps = 2, .wall_ms = 10};
  profile.rows = {{.name = "conv2d.forward",
                   .implementation = "own",
                   .layer = "conv1",
                   .phase = "forward",
                   .calls = 2,
                   .total_ms = 6,
                   .min_ms = 2,
                   .max_ms = 4,
                   .flops = 12e9,
                   .bytes = 3e9,
                   .roof_ms = 3,
                   .bound = "memory",
                   .gpu = {.kernels = {gemm()}, .copies = 1, .copied_bytes = 64}},
                  {.name = "idle", .phase = "idle", .calls = 2, .total_ms = 4, .bound = "waiting"}};
  profile.gpu = GpuProfile{.device = simulated ? "gpusim 7.5" : "NVIDIA A100-SXM4-80GB",
                           .simulated = simulated,
                           .method = "CUPTI",
                           .spec = {.name = "A100", .fp32_gflops = 19500, .half_gflops = 312000, .memory_gbps = 2039}};
  return profile;
}

// The cells of the line that begins with a word.
std::vector<std::string> cells_of(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string first;
    if (cells >> first && first == word) return {std::istream_iterator<std::string>(cells), {}};
  }
  return {};
}

using Cells = std::vector<std::string>;

TEST(GpuTable, ShowsMeasuredTimes) {
  const std::string text = to_text(made_up(false), {.group = ProfileGroup::phase});
  EXPECT_TRUE(says(text, "NVIDIA A100-SXM4-80GB (19.5 TFLOP/s fp32"));
  EXPECT_TRUE(says(text, "60.0 % of the GPUs' time is in the lines of kernels and copies"));
  EXPECT_EQ(text.find("est."), std::string::npos);
  EXPECT_EQ(cells_of(text, "forward"), (Cells{"2", "4", "6.00", "3.0000", "2.0000", "4.0000", "60.0", "%", "2000.0",
                                              "500.0", "4.0", "50", "%", "75", "%", "memory"}));
}

TEST(GpuTable, MarksEstimates) {
  const std::string text = to_text(made_up(true), {.group = ProfileGroup::phase});
  EXPECT_TRUE(says(text, "ESTIMATE for an A100"));
  for (const char* head : {"est. ms", "est. share", "est. roof", "est. bound"}) EXPECT_TRUE(says(text, head));
  EXPECT_EQ(text.find("total ms"), std::string::npos);
  EXPECT_EQ(cells_of(text, "forward"),
            (Cells{"2", "4",     "100",  "50",  "%",      "150",  "50", "2.00", "3", "75",
                   "%", "12.0G", "3.0G", "4.0", "6.0000", "60.0", "%",  "50",   "%", "memory"}));
  const auto json = nlohmann::json::parse(to_json_text(made_up(true)));
  EXPECT_EQ(json["times"], "estimate for an A100");
  EXPECT_EQ(json["kernels"][0]["estimate"], true);
  EXPECT_EQ(json["kernels"][0]["launched"][0]["counts"]["shared_conflicts"], 3);
  EXPECT_FALSE(json["kernels"][0]["launched"][0].contains("total_ms"));
  EXPECT_TRUE(says(to_csv_text(made_up(true)), ",estimated_total_ms,"));
  EXPECT_TRUE(says(to_csv_text(made_up(false)), ",total_ms,"));
}

TEST(GpuTable, GroupsByLaunch) {
  Profile profile = made_up(false);
  profile.rows.push_back(profile.rows.front());  // another node that launches the same
  const std::string text = to_text(profile, {.group = ProfileGroup::launch});
  EXPECT_EQ(cells_of(text, "gemm"),
            (Cells{"8", "8x2", "128", "40", "2048", "12.00", "1.5000", "120.0", "%", "75", "%"}));
  EXPECT_EQ(cells_of(to_text(made_up(true), {.group = ProfileGroup::launch}), "gemm"),
            (Cells{"4", "8x2", "128", "40", "2048", "100", "50", "%", "150", "50", "2.00", "3", "75", "%"}));
}

TEST(GpuTable, SaysWhyItSeesNoKernels) {
  Profile profile = made_up(false);
  profile.gpu->method = "CUDA events";
  profile.gpu->why_not_better = "CUPTI refuses";
  profile.gpu->spec = {};
  const std::string text = to_text(profile, {});
  EXPECT_TRUE(says(text, "single kernels are not seen: CUPTI refuses"));
  EXPECT_TRUE(says(text, "not in the list of known GPUs"));
}

TEST(GpuRows, TimeThatOverlapsIsBusyOnce) {
  EXPECT_DOUBLE_EQ(busy_ms({}), 0);
  EXPECT_DOUBLE_EQ(busy_ms({{5000000, 6000000}, {1000000, 2000000}, {1500000, 3000000}, {1600000, 1700000}}), 3);
}

TEST(WorkTags, KeepWhatTheyAreMadeOf) {
  for (const WorkTag& tag : {WorkTag{}, WorkTag{.rank = 5, .chunk = 3, .node = 1000, .micro_batch = 77}}) {
    EXPECT_NE(tag.packed(), 0u);
    EXPECT_EQ(WorkTag::of(tag.packed()), tag);
  }
}

}  // namespace
}  // namespace trifold::test
