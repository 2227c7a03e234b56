// A rank that is killed, whatever it is doing: all other processes end soon, with exit code 3 and a sentence that names
// it, and the run goes on from its last checkpoint as if nothing had happened.
#include "fault_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct FaultCase {
  const char* name;
  const char* plan;
  int processes;
  Kill kill;
  const char* lost = nullptr;  // as the others name it; null: by its number, which is its rank
};

constexpr const char* kData = "dp=2";
constexpr const char* kPipeline = "pp=2,micro_batches=2,stages=[5,5]";
constexpr const char* kBoth = "dp=2,pp=2,micro_batches=2,stages=[5,5]";
constexpr const char* kLong = "pp=4,micro_batches=2,stages=[3,2,2,3]";
constexpr const char* kSecondOfTwo = "process 1 (ranks 2 and 3)";

class Faults : public FaultFixture, public ::testing::WithParamInterface<FaultCase> {
 protected:
  void SetUp() override {
    if (!fs::exists(mpirun_path())) GTEST_SKIP() << "there is no mpirun";
    write_job(faulty_job());
  }

  ProgramResult train_under_mpirun(const FaultCase& fault) const {
    // Recovery: mpirun leaves the survivors alone, so that what ends them is their own doing.
    std::vector<std::string> under = {
        mpirun_path(), "--allow-run-as-root",          "--oversubscribe", "--bind-to", "none", "--enable-recovery",
        "-np",         std::to_string(fault.processes)};
    for (const std::string& variable : variables(fault.kill)) under.insert(under.end(), {"-x", variable});
    return RunningProgram(
               {.arguments = {"train", "job.json", "--plan", fault.plan}, .under = under, .directory = directory()})
        .wait(30s);
  }
};

TEST_P(Faults, EndAllRanksAndLoseNothing) {
  const FaultCase& fault = GetParam();
  train({"--name", "undisturbed", "--plan", fault.plan});
  const ProgramResult result = train_under_mpirun(fault);
  ASSERT_TRUE(fs::exists(killed())) << "nobody was killed: " << result.err;
  const auto after = fs::file_time_type::clock::now() - fs::last_write_time(killed());
  EXPECT_LT(after, 10s);

  const std::string lost = fault.lost != nullptr ? fault.lost : fmt::format("rank {}", fault.kill.rank);
  EXPECT_TRUE(says(result.err, fmt::format("trifold: {} was lost; step ", lost)));
  for (int rank = 0; rank < fault.processes; ++rank) {
    const fs::path file = directory() / fmt::format("exit.{}", rank);
    EXPECT_EQ(testing::read_file(file), rank == fault.kill.rank ? "" : "3\n") << "rank " << rank << result.err;
  }

  const LatestCheckpoint latest = latest_good(directory() / "runs/job/checkpoints");
  EXPECT_TRUE(latest.skipped.empty()) << latest.skipped.front().reason;
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_GE(latest.checkpoint->state.step, 4);
  EXPECT_LT(latest.checkpoint->state.step, 24);
  train({"--resume", "--plan", fault.plan});
  expect_same_model("job", "undisturbed");
}

INSTANTIATE_TEST_SUITE_P(
    Places, Faults,
    ::testing::Values(FaultCase{"WorkOfAReplica", kData, 2, {"work", 1, 1}},
                      FaultCase{"SumOfGradients", kData, 2, {"collective", 0, 0}},
                      FaultCase{"ReplicaWhileACheckpointIsWritten", kData, 2, {"checkpoint", 0, 1}},
                      FaultCase{"WorkOfAStage", kPipeline, 2, {"work", 0, 0}},
                      FaultCase{"MessageBetweenStages", kPipeline, 2, {"message", 1, 1}},
                      FaultCase{"HalfACheckpoint", kPipeline, 2, {"checkpoint", 0, 0}},
                      FaultCase{"WorkOfBoth", kBoth, 4, {"work", 3, 3}},
                      FaultCase{"SumOfBoth", kBoth, 4, {"collective", 2, 2}},
                      FaultCase{"CheckpointWithoutItsName", kBoth, 4, {"rename", 0, 0}},
                      FaultCase{"WorkOfTwoRanksEach", kBoth, 2, {"work", 1, 1}, kSecondOfTwo},
                      FaultCase{"SumOfTwoRanksEach", "dp=4", 2, {"message", 0, 1}, kSecondOfTwo},
                      FaultCase{"MessageOfTwoRanksEach", kLong, 2, {"message", 1, 1}, kSecondOfTwo}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace trifold::test
