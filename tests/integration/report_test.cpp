// `trifold report` as a user runs it, and its page in a real browser where there is one.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <sys/wait.h>

#include "support/job_fixture.h"
#include "support/paths.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class Report : public JobFixture {
 protected:
  void write(const std::string& name, const Json& json) const {
    fs::create_directories((directory() / name).parent_path());
    std::ofstream(directory() / name) << json.dump();
  }
};

TEST_F(Report, IsWrittenAtTheEndOfTraining) {
  write_job(small_job());
  train();
  if (!fs::exists(directory() / "runs/job/report.html")) {
    EXPECT_TRUE(says(trifold({"report", "runs/job"}).err, "node-d3"));
    GTEST_SKIP() << "this build has no d3 (package node-d3)";
  }
  EXPECT_TRUE(fs::exists(directory() / "runs/job/environment.json"));
  train({"--name", "silent", "--no-report"});
  EXPECT_FALSE(fs::exists(directory() / "runs/silent/report.html"));
  const ProgramResult both = trifold({"report", "runs/job", "runs/silent", "--out", "both.html"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_TRUE(fs::exists(directory() / "both.html"));
}

TEST_F(Report, RefusesBadFoldersInOneSentence) {
  fs::create_directories(directory() / "empty");
  std::ofstream(directory() / "empty/compare.json") << "{\"plans\"";
  for (const char* folder : {"nowhere", "empty"}) {
    const ProgramResult result = trifold({"report", folder});
    EXPECT_EQ(result.exit_code, 2) << folder;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(Report, WorksInABrowser) {
  const std::string script = source_dir() / "tests/report/check_page.py";
  const std::string log = (directory() / "page.log").string();
  const int status = std::system(
      ("python3 " + script + " " + program_path() + " " + directory().string() + " >" + log + " 2>&1").c_str());
  std::ifstream in(log);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << text;
  EXPECT_EQ(status, 0) << text;
}

}  // namespace
}  // namespace trifold::test
