// Several processes, started by mpirun, with one or more ranks each: a plan gives the losses and the model that it
// gives with ranks in one process, to the bit, and whatever happens to one process ends all of them with a sentence
// that says so.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <sys/wait.h>

#include "parallel/processes/line_socket.h"
#include "runtime/checkpoint/safetensors.h"
#include "support/job_fixture.h"
#include "support/paths.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

Json folded_job() {
  Json job = small_job();
  Json& layers = job["model"]["layers"];
  layers.insert(layers.begin() + 1, Json{{"id", "bn1"}, {"type", "batch_norm"}});
  layers.insert(layers.end() - 1, Json{{"id", "drop"}, {"type", "dropout"}, {"p", 0.2}});
  layers[4]["out"] = 48;  // so that all gradients are more than goes in one exchange
  job["data"]["train_samples"] = 8 * 32;
  job["data"]["test_samples"] = 70;  // the last batch is not full
  job["train"]["bn_group"] = 8;
  // Adam divides by what may be nearly nothing, and so makes the rounding of plans large.
  job["train"]["optimizer"] = {{"type", "sgd"}, {"lr", 0.02}, {"momentum", 0.9}};
  return job;
}

// The id of the process of a run to which the launcher gave this number.
int find_process(int number, const fs::path& directory) {
  const std::string wanted = fmt::format("OMPI_COMM_WORLD_RANK={}", number);
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code error;
    if (fs::read_symlink(entry.path() / "cwd", error) != directory || error) continue;
    std::ifstream environment(entry.path() / "environ", std::ios::binary);
    for (std::string variable; std::getline(environment, variable, '\0');)
      if (variable == wanted) return std::stoi(name);
  }
  return -1;
}

class MpiTest : public JobFixture {
 protected:
  void SetUp() override {
    if (!fs::exists(mpirun_path())) GTEST_SKIP() << "there is no mpirun";
    write_job(folded_job());
  }

  static std::vector<std::string> mpirun(int processes, const std::vector<std::string>& variables = {}) {
    std::vector<std::string> words = {"env"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), {mpirun_path(), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np",
                               std::to_string(processes)});
    return words;
  }
  RunningProgram::Args args_of(int processes, const std::string& plan, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"train", "job.json", "--json", "--plan", plan};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return {.arguments = arguments, .under = mpirun(processes, {"TRIFOLD_PATIENCE=3"}), .directory = directory()};
  }
  ProgramResult train_in(int processes, const std::string& plan, std::vector<std::string> more = {}) const {
    return RunningProgram(args_of(processes, plan, std::move(more))).wait(120s);
  }
  std::string metrics_text(const std::string& run) const {
    return testing::read_file(directory() / "runs" / run / "metrics.jsonl");
  }
  void expect_same_model(const std::string& a, const std::string& b) const {
    const SafetensorsFile first(checkpoints(a).back());
    const SafetensorsFile second(checkpoints(b).back());
    ASSERT_EQ(first.tensors().size(), second.tensors().size());
    for (const NamedTensor& tensor : first.tensors()) {
      const NamedTensor* other = second.find(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(tensor.data, other->data)) << tensor.name;
    }
  }

  // Trains four ranks without end in so many processes and does something to one of them after some steps.
  struct Ended {
    ProgramResult result;
    std::chrono::duration<double> after;
  };
  Ended disturb(int number, int signal, int processes = 4) const {
    RunningProgram program(
        args_of(processes, "dp=2,pp=2,micro_batches=2", {"--quiet", "--set", "train.epochs=100000"}));
    const auto steps = [&] {
      const std::string text = metrics_text("job");
      return std::count(text.begin(), text.end(), '\n');
    };
    while (program.running() && (!fs::exists(directory() / "runs/job/metrics.jsonl") || steps() < 5))
      std::this_thread::sleep_for(1ms);
    const int process = find_process(number, fs::canonical(directory()));
    EXPECT_GT(process, 0);
    const auto begin = std::chrono::steady_clock::now();
    if (process > 0) ::kill(process, signal);
    ProgramResult result = program.wait(60s);
    return {std::move(result), std::chrono::steady_clock::now() - begin};
  }
};

// What the program in tests/parallel/communicator/mpi/mpi_ranks.cpp printed, and its exit code.
class MpiCollectives : public MpiTest {
 protected:
  std::pair<int, std::string> run_ranks(int processes, const std::string& arguments) const {
    // This program may be one shard of several; that one is whole.
    const std::string command =
        fmt::format("cd {} && unset GTEST_TOTAL_SHARDS GTEST_SHARD_INDEX && {} {} {} > ranks.log 2>&1",
                    directory().string(), fmt::join(mpirun(processes), " "), mpi_ranks_path(), arguments);
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), testing::read_file(directory() / "ranks.log")};
  }
};

// Two processes have neighbours only, three have one that is neither the first nor the last.
TEST_F(MpiCollectives, GiveWhatRanksInOneProcessGet) {
  struct Case {
    int processes;
    const char* arguments;
  };
  for (const Case& each : {Case{4, ""}, Case{4, "--check-calls"}, Case{2, "--ranks-each 2"},
                           Case{2, "--ranks-each 3 --check-calls"}, Case{3, "--ranks-each 2"}}) {
    SCOPED_TRACE(fmt::format("{} processes {}", each.processes, each.arguments));
    const auto [status, printed] =
        run_ranks(each.processes, fmt::format("{} --gtest_filter=-Mismatch.*", each.arguments));
    EXPECT_EQ(status, 0) << printed;
    EXPECT_TRUE(says(printed, "20 tests from 3 test suites ran"));
  }
}

TEST_F(MpiCollectives, AMismatchIsToldByTheProgramThatHasIt) {
  for (const char* each : {"1", "2"}) {
    const auto [status, printed] =
        run_ranks(4, fmt::format("--check-calls --ranks-each {} --gtest_filter=Mismatch.*", each));
    EXPECT_EQ(status, 3) << printed;
    EXPECT_FALSE(says(printed, "FAILED"));
    EXPECT_TRUE(says(printed, each[0] == '1' ? "rank 3 calls all_reduce of 44 bytes where rank 0 calls all_reduce of 40"
                                             : "rank 7 calls all_reduce of 44 bytes"));
  }
}

struct PlanCase {
  const char* plan;
  int processes;
};

class MpiPlans : public MpiTest, public ::testing::WithParamInterface<PlanCase> {};

TEST_P(MpiPlans, GiveTheBitsOfRanksInOneProcess) {
  const auto [plan, processes] = GetParam();
  train({"--name", "threads", "--plan", plan});
  const ProgramResult result = train_in(processes, plan, {"--name", "processes"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(last_json(result.out)["steps"], 16);
  EXPECT_EQ(metrics_but_times("threads"), metrics_but_times("processes"));
  expect_same_model("threads", "processes");
  EXPECT_EQ(testing::read_file(directory() / "runs/threads/evaluation.json"),
            testing::read_file(directory() / "runs/processes/evaluation.json"));
}

INSTANTIATE_TEST_SUITE_P(
    Plans, MpiPlans,
    ::testing::Values(PlanCase{"dp=2", 2}, PlanCase{"pp=2,micro_batches=4", 2}, PlanCase{"tp=2", 2},
                      PlanCase{"dp=2,pp=2,micro_batches=2", 4}, PlanCase{"dp=4,zero=3", 4},
                      PlanCase{"tp=2,pp=2,micro_batches=4", 4}, PlanCase{"dp=2,tp=2", 4},
                      PlanCase{"pp=4,micro_batches=4,schedule=zero-bubble", 4}, PlanCase{"dp=2,zero=1", 2},
                      PlanCase{"dp=4,sync.type=powersgd", 4}, PlanCase{"dp=2,bucket=4KB", 2},
                      PlanCase{"pp=2,micro_batches=4,recompute=all", 2},
                      // Several ranks a process.
                      PlanCase{"dp=2,tp=2", 2}, PlanCase{"dp=4", 2}, PlanCase{"dp=4,bucket=4KB", 2},
                      PlanCase{"dp=2,pp=2,micro_batches=2", 2}, PlanCase{"pp=4,micro_batches=4", 2},
                      PlanCase{"dp=4,zero=3", 2}, PlanCase{"tp=4", 2}, PlanCase{"dp=4,sync.type=powersgd", 2},
                      PlanCase{"dp=2,pp=3,micro_batches=2", 3}, PlanCase{"dp=2,pp=2,tp=2,micro_batches=2,zero=2", 2}),
    [](const auto& each) { return fmt::format("Plan{}", each.index); });

// A process reads its part of a batch, but divides the loss by the class weights of the whole.
TEST_F(MpiTest, ProcessesShareTheMeanOfClassWeights) {
  const std::vector<std::string> weights = {"--set", "data.class_weights=[0.2,1,3]"};
  train({"--name", "single", weights[0], weights[1]});
  train({"--name", "unweighted"});
  EXPECT_NE(metrics_but_times("single"), metrics_but_times("unweighted"));
  for (const char* plan : {"dp=2", "dp=2,pp=2,micro_batches=2"}) {
    train({"--name", "threads", "--force", "--plan", plan, weights[0], weights[1]});
    const ProgramResult result = train_in(2, plan, {"--name", "processes", "--force", weights[0], weights[1]});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(metrics_but_times("threads"), metrics_but_times("processes"));
    const std::vector<Json> lines = metrics("processes");
    const std::vector<Json> expected = metrics("single");
    ASSERT_EQ(lines.size(), expected.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto loss = expected[i]["loss"].get<double>();
      EXPECT_NEAR(lines[i]["loss"].get<double>(), loss, 1e-4 * loss) << lines[i];
    }
  }
}

// One epoch each by a plan of two processes, of four, and of threads. Plans differ in how they round, no more.
TEST_F(MpiTest, AnyPlanResumesAnyPlansCheckpoint) {
  train({"--name", "undisturbed", "--set", "train.epochs=3"});
  ASSERT_EQ(train_in(2, "tp=2", {"--set", "train.epochs=1"}).exit_code, 0);
  const ProgramResult second = train_in(4, "dp=2,pp=2,micro_batches=2", {"--resume", "--set", "train.epochs=2"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  train({"--resume", "--plan", "dp=2", "--set", "train.epochs=3"});
  const std::vector<Json> expected = metrics("undisturbed");
  const std::vector<Json> lines = metrics();
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], expected[i]["step"]);
    const auto loss = expected[i]["loss"].get<double>();
    EXPECT_NEAR(lines[i]["loss"].get<double>(), loss, 1e-4 * loss) << lines[i];
  }
}

TEST_F(MpiTest, AKilledProcessEndsAllAndIsNamed) {
  const Ended ended = disturb(3, SIGKILL);
  EXPECT_NE(ended.result.exit_code, 0);
  EXPECT_TRUE(says(ended.result.err, "trifold: rank 3 was lost; step "));
  EXPECT_LT(ended.after.count(), 10);
}

TEST_F(MpiTest, AKilledProcessOfTwoRanksEndsAllAndIsNamed) {
  const Ended ended = disturb(1, SIGKILL, 2);
  EXPECT_NE(ended.result.exit_code, 0);
  EXPECT_TRUE(says(ended.result.err, "trifold: process 1 (ranks 2 and 3) was lost; step "));
  EXPECT_LT(ended.after.count(), 10);
}

TEST_F(MpiTest, AHangingProcessOfTwoRanksIsReportedByAll) {
  const Ended ended = disturb(1, SIGSTOP, 2);
  EXPECT_EQ(ended.result.exit_code, 3);
  // Rank 1 "waits for nobody" when the other process is stopped between two steps: its thread has nothing to do then.
  for (const char* each :
       {"rank 0 waits in ", "rank 1 waits ", "rank 2 does not answer, step ", "rank 3 does not answer, step "})
    EXPECT_TRUE(says(ended.result.err, each));
  EXPECT_LT(ended.after.count(), 20);
}

TEST_F(MpiTest, AHangingProcessIsReportedByAll) {
  const Ended ended = disturb(1, SIGSTOP);
  EXPECT_EQ(ended.result.exit_code, 3);
  EXPECT_TRUE(says(ended.result.err, "rank 1 does not answer, step "));
  EXPECT_TRUE(says(ended.result.err, "rank 0 waits in "));
  EXPECT_TRUE(says(ended.result.err, "rank 3 waits in "));
  EXPECT_LT(ended.after.count(), 20);
}

TEST_F(MpiTest, AnInterruptOfOneProcessEndsAllWithACheckpoint) {
  const Ended ended = disturb(2, SIGTERM);
  EXPECT_EQ(ended.result.exit_code, 0) << ended.result.err;
  EXPECT_EQ(last_json(ended.result.out)["stopped_by"], "interrupt");
  const auto steps = last_json(ended.result.out)["steps"].get<int>();
  EXPECT_TRUE(says(checkpoints().back().string(), fmt::format("{:08}", steps)));
}

class MpiMeeting : public MpiTest, public ::testing::WithParamInterface<const char*> {};

// Without mpirun: variables say where process 0 is.
TEST_P(MpiMeeting, ByTorchrunsVariables) {
  train({"--name", "threads", "--plan", GetParam()});
  const int port = LineListener({.port = 0, .this_machine_only = true}).port();
  const auto under = [&](int rank) -> std::vector<std::string> {
    return {"env", "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", port), "WORLD_SIZE=2",
            fmt::format("RANK={}", rank)};
  };
  fs::create_directory(directory() / "elsewhere");
  const std::vector<std::string> arguments = {
      "train", (directory() / "job.json").string(), "--plan", GetParam(), "--name", "processes"};
  RunningProgram other({.arguments = arguments, .under = under(1), .directory = directory() / "elsewhere"});
  const ProgramResult first =
      RunningProgram({.arguments = arguments, .under = under(0), .directory = directory()}).wait(60s);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  const ProgramResult second = other.wait(60s);
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.out, "");
  EXPECT_FALSE(fs::exists(directory() / "elsewhere/runs"));
  EXPECT_EQ(metrics_but_times("threads"), metrics_but_times("processes"));
}

INSTANTIATE_TEST_SUITE_P(Plans, MpiMeeting, ::testing::Values("dp=2", "dp=2,tp=2"),
                         [](const auto& each) { return each.index == 0 ? "OneRankEach" : "TwoRanksEach"; });

TEST_F(MpiTest, RanksThatDoNotDivideAreRefusedOnce) {
  const auto expect = [&](int processes, const char* plan, const char* sentence) {
    const ProgramResult result = train_in(processes, plan);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(says(result.err, sentence));
    EXPECT_EQ(result.err.find("would work"), result.err.rfind("would work")) << result.err;
  };
  expect(3, "dp=2",
         "dp 2 x tp 1 x pp 1 is 2 ranks, which do not divide among the 3 processes of mpirun; 2 processes, or "
         "a plan of 3 ranks, would work");
  expect(2, "dp=3",
         "dp 3 x tp 1 x pp 1 is 3 ranks, which do not divide among the 2 processes of mpirun; 1 or 3 "
         "processes, or a plan of 2 or 4 ranks, would work");
}

// One trace and one profile of all ranks, by one clock: what is sent in one process arrives later in another.
TEST_F(MpiTest, ProfileOfSeveralProcessesIsOne) {
  struct {
    int processes;
    const char* plan;
    int ranks;
  } const cases[] = {{2, "dp=2", 2}, {2, "pp=2,micro_batches=4", 2}, {2, "dp=2,pp=2,micro_batches=2", 4}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.plan);
    const ProgramResult result =
        RunningProgram({.arguments = {"profile", "job.json", "--plan", each.plan, "--steps", "6", "--json"},
                        .under = mpirun(each.processes),
                        .directory = directory()})
            .wait(120s);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json profile = last_json(result.out);
    EXPECT_EQ(profile["processes"], each.processes);
    EXPECT_GT(profile["clock_uncertainty_us"], 0.0);
    EXPECT_GT(profile["attributed"], 0.5);
    std::vector<bool> seen(static_cast<std::size_t>(each.ranks));
    for (const Json& row : profile["kernels"]) seen.at(row["rank"].get<std::size_t>()) = true;
    EXPECT_EQ(std::ranges::count(seen, true), each.ranks);

    const ProgramResult read = trifold({"trace", "runs/job-profile", "--json"});
    ASSERT_EQ(read.exit_code, 0) << read.err;
    const Json trace = last_json(read.out);
    ASSERT_EQ(trace["ranks"].size(), static_cast<std::size_t>(each.ranks));
    for (const Json& rank : trace["ranks"]) EXPECT_EQ(rank["steps"], 6);
    EXPECT_EQ(trace["notes"]["processes"], each.processes);
    const double uncertainty_us = trace["notes"]["clock_uncertainty_us"];
    EXPECT_DOUBLE_EQ(uncertainty_us, profile["clock_uncertainty_us"].get<double>());
    EXPECT_EQ(trace["arrows"].contains("message"), each.plan != std::string("dp=2"));
    for (const auto& [name, arrows] : trace["arrows"].items()) {
      EXPECT_EQ(arrows["unmatched"], 0) << name;
      EXPECT_LE(arrows["most_backwards_us"].get<double>(), uncertainty_us) << name;
    }
  }
}

// One of the processes has a clock that is 1000 s ahead, as another machine's may be.
TEST_F(MpiTest, TraceOfClocksThatAreApartIsByOne) {
  const std::vector<std::string> ahead = {"unshare", "--time", "--monotonic", "1000"};
  if (std::system(fmt::format("{} true 2> /dev/null", fmt::join(ahead, " ")).c_str()) != 0)
    GTEST_SKIP() << "this user may give no process a clock of its own";
  const std::vector<std::string> profile = {"profile", "job.json", "--plan",      "pp=2,micro_batches=4",
                                            "--steps", "6",        "--no-report", "--json"};
  std::vector<std::string> arguments = profile;
  arguments.insert(arguments.end(), {":", "-np", "1"});
  arguments.insert(arguments.end(), ahead.begin(), ahead.end());
  arguments.push_back(program_path());
  arguments.insert(arguments.end(), profile.begin(), profile.end());
  const ProgramResult result =
      RunningProgram({.arguments = arguments, .under = mpirun(1), .directory = directory()}).wait(120s);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json trace = last_json(trifold({"trace", "runs/job-profile", "--json"}).out);
  EXPECT_LT(trace["span_ms"], 100e3);
  EXPECT_GT(trace["arrows"]["message"]["matched"], 0);
  EXPECT_LE(trace["arrows"]["message"]["most_backwards_us"].get<double>(),
            trace["notes"]["clock_uncertainty_us"].get<double>());
}

TEST_F(MpiTest, TrainAndCheckSayHowRanksLie) {
  const ProgramResult result = train_in(2, "dp=2,tp=2");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "4 ranks in 2 processes: 0 and 1, 2 and 3"));
  const ProgramResult checked =
      RunningProgram(
          {.arguments = {"check", "job.json", "--plan", "dp=2,tp=2"}, .under = mpirun(2), .directory = directory()})
          .wait(60s);
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  const std::size_t line = checked.out.find("4 ranks in 2 processes: 0 and 1, 2 and 3\n");
  EXPECT_NE(line, std::string::npos) << checked.out;
  EXPECT_EQ(checked.out.find("4 ranks in 2", line + 1), std::string::npos) << checked.out;
}

}  // namespace
}  // namespace trifold::test
