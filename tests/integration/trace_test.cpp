// `trifold trace` reads off a trace what `trifold compare` measured, and says what is wrong with a file.

#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class TraceTest : public JobFixture {
 protected:
  void SetUp() override { write_job(small_job()); }
};

// Both are of the same spans of the same steps, so they agree far better than the 5 % that two runs could be held to.
TEST_F(TraceTest, OfAComparisonHasItsFigures) {
  const ProgramResult compared = trifold({"compare", "job.json", "--plans", "single; dp=2; tp=2; pp=2", "--steps", "24",
                                          "--rounds", "3", "--trace", "--json", "--quiet", "--no-report"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const Json comparison = last_json(compared.out);
  ASSERT_EQ(comparison["plans"].size(), 4U);
  constexpr double kClose_ms = 1e-3;
  for (const Json& plan : comparison["plans"]) {
    SCOPED_TRACE(plan["plan"]);
    const ProgramResult result = trifold({"trace", "runs/job-compare/" + plan["trace"].get<std::string>(), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json trace = last_json(result.out);
    EXPECT_EQ(trace["rounds"], 3);
    EXPECT_EQ(trace["steps"], 21) << "the first of every round is not measured";
    for (const char* part : {"compute", "exposed_comm", "bubble", "input", "optimizer"})
      EXPECT_NEAR(trace["step_ms"][part].get<double>(), plan["step_ms"][part].get<double>(), kClose_ms) << part;
    for (const auto& [name, arrows] : trace["arrows"].items()) EXPECT_EQ(arrows["unmatched"], 0) << name;
    EXPECT_EQ(trace["arrows"].contains("message"), plan["plan"] == "pp=2");
    EXPECT_EQ(trace["arrows"].contains("bucket"), plan["plan"] == "dp=2");
  }
  const ProgramResult several = trifold({"trace", "runs/job-compare"});
  EXPECT_EQ(several.exit_code, 2);
  EXPECT_TRUE(says(several.err, "has several traces, name one: runs/job-compare/trace-dp=2.json, "));
  // The next comparison leaves no trace of this one.
  ASSERT_EQ(trifold({"compare", "job.json", "--plans", "single", "--steps", "4", "--rounds", "1", "--quiet"}).exit_code,
            0);
  EXPECT_TRUE(says(trifold({"trace", "runs/job-compare"}).err, "'runs/job-compare' has no trace; "));
}

TEST_F(TraceTest, OfAProfileIsShownRankByRank) {
  ASSERT_EQ(trifold({"profile", "job.json", "--plan", "pp=2", "--steps", "4", "--no-report"}).exit_code, 0);
  const ProgramResult result = trifold({"trace", "runs/job-profile"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "runs/job-profile/trace.json: 2 ranks, 4 steps in "));
  EXPECT_TRUE(says(result.out, "rank 1 (data 0, stage 1, tensor 0) "));
  EXPECT_TRUE(says(result.out, "arrows \"message\": "));
  EXPECT_TRUE(says(result.out, "longest times of a rank without a kernel:"));

  std::string text = testing::read_file(directory() / "runs/job-profile/trace.json");
  text.resize(text.size() / 2);
  testing::write_file(directory() / "half.json", text);
  const ProgramResult half = trifold({"trace", "half.json"});
  EXPECT_EQ(half.exit_code, 1);
  EXPECT_TRUE(says(half.err, "trifold: 'half.json' ends in the middle, at byte "));
  EXPECT_TRUE(says(half.out, "half.json: 2 ranks, ")) << "what was read is shown";
}

TEST_F(TraceTest, RefusesWhatIsNone) {
  const auto refusal = [&](const std::string& what) {
    const ProgramResult result = trifold({"trace", what});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_TRUE(says(refusal("nowhere"), "there is no 'nowhere'"));
  EXPECT_TRUE(says(refusal("job.json"), "'job.json' has 0 events, but no step"));
  testing::write_file(directory() / "text", "hello");
  EXPECT_TRUE(says(refusal("text"), "'text' is no JSON any more at byte "));
}

}  // namespace
}  // namespace trifold::test
