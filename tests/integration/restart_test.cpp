// `trifold train --restarts`: a job that loses a process comes back by itself, and leaves what an undisturbed one
// leaves.
#include <csignal>
#include <thread>

#include "fault_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Restart : public FaultFixture {
 protected:
  void SetUp() override { write_job(faulty_job()); }

  RunningProgram::Args args_with(const Kill& kill, std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"train", "job.json", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<std::string> under = {"env"};
    for (std::string& variable : variables(kill)) under.push_back(std::move(variable));
    return {.arguments = arguments, .under = under, .directory = directory()};
  }
  ProgramResult train_with(const Kill& kill, std::vector<std::string> more) const {
    return RunningProgram(args_with(kill, std::move(more))).wait(60s);
  }
  void expect_undisturbed() const {
    expect_same_model("job", "undisturbed");
    EXPECT_EQ(metrics_but_times("job"), metrics_but_times("undisturbed"));
  }
  static void wait_until(RunningProgram& program, const fs::path& file) {
    while (program.running() && !fs::exists(file)) std::this_thread::sleep_for(1ms);
  }
};

TEST_F(Restart, OfRanksThatAreThreads) {
  train({"--name", "undisturbed", "--plan", "dp=2"});
  const ProgramResult result = train_with({.at = "work", .times = 2}, {"--plan", "dp=2", "--restarts", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "trifold: the job was killed by signal 9 (Killed); restart 1 of 3, from step "));
  EXPECT_TRUE(says(result.err, "(runs/job/checkpoints/step-0"));
  EXPECT_TRUE(says(result.err, "restart 2 of 3"));
  EXPECT_FALSE(result.err.find("restart 3 of 3") != std::string::npos) << result.err;
  EXPECT_EQ(last_json(result.out)["steps"], 24);
  expect_undisturbed();
}

TEST_F(Restart, OfProcesses) {
  if (!fs::exists(mpirun_path())) GTEST_SKIP() << "there is no MPI";
  const std::string plan = "dp=2,pp=2,micro_batches=2,stages=[5,5]";
  train({"--name", "undisturbed", "--plan", plan});
  const ProgramResult result =
      train_with({.at = "collective", .in = 3, .rank = 3}, {"--plan", plan, "--restarts=1", "--processes", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "trifold: rank 3 was lost"));
  EXPECT_TRUE(says(result.err, "trifold: rank 3 was killed by signal 9 (Killed); restart 1 of 1, from step "));
  expect_undisturbed();
}

TEST_F(Restart, OfProcessesOfTwoRanks) {
  if (!fs::exists(mpirun_path())) GTEST_SKIP() << "there is no MPI";
  train({"--name", "undisturbed", "--plan", "dp=2,tp=2"});
  const ProgramResult result =
      train_with({.at = "work", .in = 1, .rank = 1}, {"--plan", "dp=2,tp=2", "--restarts=1", "--processes", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "trifold: process 1 (ranks 2 and 3) was lost"));
  EXPECT_TRUE(says(result.err,
                   "trifold: process 1 (ranks 2 and 3) was killed by signal 9 (Killed); restart 1 of 1, from step "));
  expect_undisturbed();
}

TEST_F(Restart, HalfWayThroughACheckpoint) {
  train({"--name", "undisturbed"});
  const ProgramResult result = train_with({.at = "checkpoint"}, {"--restarts", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "restart 1 of 1, from step 4 "));
  expect_undisturbed();
}

// Some of its files are there, the index that makes them a checkpoint is not.
TEST_F(Restart, HalfWayThroughACheckpointOfSeveralFiles) {
  train({"--name", "undisturbed"});
  const ProgramResult result =
      train_with({.at = "checkpoint", .after = "runs/job/checkpoints/step-00000008-00002-of-00004.safetensors"},
                 {"--restarts", "1", "--set", "train.checkpoint.shard_bytes=120000"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(
      says(result.err, "restart 1 of 1, from step 4 (runs/job/checkpoints/step-00000004.safetensors.index.json"));
  expect_undisturbed();
}

TEST_F(Restart, GivesUp) {
  const ProgramResult result = train_with({.at = "work", .times = 9}, {"--restarts", "2"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(says(result.err, "trifold: the job was killed by signal 9 (Killed); gave up after 2 restarts\n"));
  EXPECT_TRUE(fs::exists(killed(2)));
  EXPECT_FALSE(fs::exists(killed(3)));
}

TEST_F(Restart, SaysWhereThereIsNothingToGoOnFrom) {
  Json job = faulty_job();
  job["train"]["checkpoint"] = {{"every_epochs", 0}};
  write_job(job);
  train({"--name", "undisturbed"});
  const ProgramResult result = train_with({.at = "work", .after = "runs/job/metrics.jsonl"}, {"--restarts", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "restart 1 of 1, from the beginning: train.checkpoint says that this job writes none"));
  expect_undisturbed();
}

TEST_F(Restart, OfARunThatReplacesAnother) {
  train({"--name", "undisturbed"});
  train({"--set", "train.seed=9"});  // the run to be replaced
  const ProgramResult result = train_with({.at = "rename"}, {"--force", "--restarts", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(fs::exists(killed()));
  EXPECT_TRUE(says(result.err, "restart 1 of 1, from step 4 "));
  expect_undisturbed();
}

TEST_F(Restart, NotOfAWrongJobOrOneThatFails) {
  const ProgramResult wrong = trifold({"train", "job.json", "--restarts", "3", "--set", "train.bn_group=7"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_FALSE(wrong.err.find("restart") != std::string::npos) << wrong.err;
  const ProgramResult failing = trifold({"train", "job.json", "--restarts", "3", "--set", "train.optimizer.lr=1e38"});
  EXPECT_EQ(failing.exit_code, 1);
  EXPECT_TRUE(says(failing.err, "the loss became"));
  EXPECT_FALSE(failing.err.find("restart") != std::string::npos) << failing.err;
}

TEST_F(Restart, CtrlCEndsTheJobOnceAndForAll) {
  RunningProgram program(
      {.arguments = {"train", "job.json", "--json", "--restarts", "3", "--set", "train.epochs=10000"},
       .directory = directory()});
  wait_until(program, directory() / "runs/job/checkpoints/step-00000004.safetensors");
  program.send(SIGINT);
  const ProgramResult result = program.wait(60s);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(last_json(result.out)["stopped_by"], "interrupt");
  EXPECT_FALSE(result.err.find("restart") != std::string::npos) << result.err;
}

// Kill -9 of the supervisor leaves no process behind: they save and end.
TEST_F(Restart, NothingOutlivesTheSupervisor) {
  RunningProgram program(args_with({.at = "none"}, {"--restarts", "3", "--set", "train.epochs=10000"}));
  wait_until(program, directory() / "runs/job/checkpoints/step-00000004.safetensors");
  const int child = std::stoi(testing::read_file(directory() / "pid.0"));
  ASSERT_EQ(::kill(child, 0), 0);
  program.send(SIGKILL);
  program.wait(60s);
  for (int i = 0; i < 2000 && testing::read_file(directory() / "exit.0").empty(); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(testing::read_file(directory() / "exit.0"), "0\n");
}

}  // namespace
}  // namespace trifold::test
