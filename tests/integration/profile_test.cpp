// `trifold profile` as a user runs it: what it prints, leaves behind and refuses.
#include <filesystem>
#include <sstream>

#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class ProfileTest : public JobFixture {
 protected:
  void SetUp() override { write_job(small_job()); }

  ProgramResult profile(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"profile", "job.json", "--steps", "3", "--warmup", "1"});
    return trifold(arguments);
  }
};

TEST_F(ProfileTest, PrintsLinesAndLeavesARunFolder) {
  const ProgramResult result = profile({"--group", "layer", "--top", "3", "--csv", "lines.csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "\nlayer "));
  EXPECT_TRUE(says(result.out, " more (--top 0 shows all)"));
  EXPECT_TRUE(says(result.out, "run folder: runs/job-profile"));
  for (const char* file : {"profile.json", "trace.json", "job.json", "environment.json"})
    EXPECT_TRUE(std::filesystem::exists(directory() / "runs/job-profile" / file)) << file;
  const Json left = Json::parse(testing::read_file(directory() / "runs/job-profile/profile.json"));
  std::istringstream csv(testing::read_file(directory() / "lines.csv"));
  std::size_t lines = 0;
  for (std::string line; std::getline(csv, line);) ++lines;
  EXPECT_EQ(lines, left["kernels"].size() + 1);
  EXPECT_EQ(left["steps"], 3);
  EXPECT_FALSE(left["memory"]["timelines"].empty());
}

TEST_F(ProfileTest, GroupsByRankAndMicroBatch) {
  const ProgramResult ranks = profile({"--plan", "pp=2,micro_batches=2", "--group", "rank", "--no-report"});
  ASSERT_EQ(ranks.exit_code, 0) << ranks.err;
  EXPECT_TRUE(says(ranks.out, "\nrank 1 "));
  const ProgramResult parts =
      profile({"--plan", "pp=2,micro_batches=2", "--group", "micro-batch", "--top", "0", "--no-report", "--no-trace"});
  ASSERT_EQ(parts.exit_code, 0) << parts.err;
  EXPECT_TRUE(says(parts.out, "\nrank 0 micro-batch 1 forward "));
}

TEST_F(ProfileTest, HoldsConvolutionsAgainstThemselvesAlone) {
  const ProgramResult result = profile({"--alone", "--json", "--no-report", "--no-trace"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  int convolutions = 0;
  const Json found = last_json(result.out);
  for (const Json& row : found["kernels"]) {
    const bool product =
        row["name"].get<std::string>().starts_with("conv2d") || row["name"].get<std::string>().starts_with("linear");
    EXPECT_EQ(row["alone_gflops"].get<double>() > 0, product) << row["name"];
    convolutions += row["name"].get<std::string>().starts_with("conv2d") ? 1 : 0;
  }
  EXPECT_GT(convolutions, 0);
}

TEST_F(ProfileTest, RefusesInOneSentence) {
  const auto refusal = [&](std::vector<std::string> arguments) {
    const ProgramResult result = profile(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_TRUE(says(refusal({"--group", "colour"}), "colour not in {kernel,launch,layer,"));
  EXPECT_TRUE(
      says(refusal({"--devices", "cpu", "--gpu", "h100"}), "--gpu and --group launch are for ranks that are GPUs"));
  EXPECT_TRUE(says(refusal({"--devices", "cpu", "--group", "launch"}), "--devices cuda names GPUs"));
}

}  // namespace
}  // namespace trifold::test
