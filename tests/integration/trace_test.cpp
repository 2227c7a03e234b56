// `trifold trace` reads off a trace what `trifold compare` measured, and says what is wrong with a file.
#include <cmath>

#include <fmt/format.h>

#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class TraceTest : public JobFixture {
 protected:
  void SetUp() override { write_job(small_job()); }
};

// Both are of the same steps, so the split must be the same but for the moments between a clock's reading and the next.
// A thread that the system stops in such a moment is idle longer in the trace than in the comparison, so of three
// comparisons one must agree.
TEST_F(TraceTest, OfAComparisonHasItsFigures) {
  constexpr double kShare = 0.05;
  constexpr double kFloor_ms = 0.02;  // of figures near 0: how long a rank's thread may take to its first span
  std::string differs = "not compared";
  for (int attempt = 0; attempt < 3 && !differs.empty(); ++attempt) {
    differs.clear();
    const ProgramResult compared = trifold({"compare", "job.json", "--plans", "single; dp=2; tp=2; pp=2", "--steps",
                                            "24", "--rounds", "3", "--trace", "--json", "--quiet", "--no-report"});
    ASSERT_EQ(compared.exit_code, 0) << compared.err;
    const Json comparison = last_json(compared.out);
    ASSERT_EQ(comparison["plans"].size(), 4U);
    for (const Json& plan : comparison["plans"]) {
      SCOPED_TRACE(plan["plan"]);
      const ProgramResult result = trifold({"trace", "runs/job-compare/" + plan["trace"].get<std::string>(), "--json"});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const Json trace = last_json(result.out);
      EXPECT_EQ(trace["rounds"], 3);
      EXPECT_EQ(trace["steps"], 21) << "the first of every round is not measured";
      for (const char* part : {"compute", "exposed_comm", "bubble", "input", "optimizer"}) {
        const double measured = plan["step_ms"][part];
        const double read = trace["step_ms"][part];
        if (std::abs(read - measured) > kShare * measured + kFloor_ms)
          differs +=
              fmt::format("{} of {}: {} ms in the trace, {} measured; ", part, plan["plan"].dump(), read, measured);
      }
      for (const auto& [name, arrows] : trace["arrows"].items()) EXPECT_EQ(arrows["unmatched"], 0) << name;
      EXPECT_EQ(trace["arrows"].contains("message"), plan["plan"] == "pp=2");
      EXPECT_EQ(trace["arrows"].contains("bucket"), plan["plan"] == "dp=2");
    }
  }
  EXPECT_EQ(differs, "");
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
