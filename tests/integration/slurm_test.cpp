// docs/examples/slurm_train.sbatch, where mpirun plays srun: a job that loses a rank asks for its requeue, and goes on
// after it.
#include <cstdlib>

#include <sys/wait.h>

#include "fault_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class Slurm : public FaultFixture {
 protected:
  void SetUp() override {
    if (!fs::exists(mpirun_path())) GTEST_SKIP() << "there is no mpirun";
    write_job(faulty_job());
    fs::create_directory(directory() / "bin");
    write_program("srun", fmt::format("[ \"$1 $2\" = '--mpi=pmix --kill-on-bad-exit=1' ] || exit 77\nshift 2\nexec {} "
                                      "--allow-run-as-root --oversubscribe --bind-to none -np 2 \"$@\"",
                                      mpirun_path()));
    write_program("scontrol", "echo \"$@\" >> scontrol.log");
  }

  void write_program(const std::string& name, const std::string& script) const {
    const fs::path file = directory() / "bin" / name;
    testing::write_file(file, "#!/bin/sh\n" + script + "\n");
    fs::permissions(file, fs::perms::owner_all);
  }

  // As Slurm starts it, with these variables too; its exit code.
  int sbatch(const std::string& arguments, const std::vector<std::string>& variables = {}) const {
    const std::string command = fmt::format(
        "cd {0} && env {1} PATH={0}/bin:$PATH TRIFOLD={2} SLURM_JOB_NAME=job SLURM_JOB_ID=42 SLURM_CPUS_PER_TASK=1 "
        "bash "
        "{3}/docs/examples/slurm_train.sbatch job.json {4} >> slurm.log 2>&1",
        directory().string(), fmt::join(variables, " "), program_path(), source_dir().string(), arguments);
    return WEXITSTATUS(std::system(command.c_str()));
  }
  std::string text_of(const char* file) const { return testing::read_file(directory() / file); }
};

TEST_F(Slurm, AJobThatLosesARankIsRequeuedAndGoesOn) {
  train({"--name", "undisturbed", "--plan", "dp=2"});
  const int first = sbatch("--plan dp=2", variables({.at = "work", .in = 1, .rank = 1}));
  ASSERT_TRUE(fs::exists(killed())) << text_of("slurm.log");
  EXPECT_TRUE(first == 3 || first > 128) << first << text_of("slurm.log");
  EXPECT_EQ(text_of("scontrol.log"), "requeue 42\n");
  EXPECT_TRUE(says(text_of("slurm.log"), "back to the queue, restart 1 of 3"));
  EXPECT_EQ(sbatch("--plan dp=2", {"SLURM_RESTART_COUNT=1"}), 0) << text_of("slurm.log");
  EXPECT_EQ(text_of("scontrol.log"), "requeue 42\n");
  expect_same_model("job", "undisturbed");
}

TEST_F(Slurm, NoRequeueOfAWrongJobOrOnceTooOften) {
  EXPECT_EQ(sbatch("--plan dp=3"), 2) << text_of("slurm.log");
  std::vector<std::string> last = variables({.at = "work", .in = 1, .rank = 1});
  last.emplace_back("SLURM_RESTART_COUNT=3");
  EXPECT_GE(sbatch("--plan dp=2", last), 3) << text_of("slurm.log");
  EXPECT_EQ(text_of("scontrol.log"), "");
}

}  // namespace
}  // namespace trifold::test
