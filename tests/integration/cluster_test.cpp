// Parameter servers and workers as processes: the same training as all-reduce, whoever comes and goes.
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "runtime/checkpoint/checkpoint.h"
#include "support/cluster_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Processes below `parent`, by the first word after the program's name: "server", "worker".
std::vector<int> members_of(int parent, const std::string& role) {
  std::vector<int> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string status = text_of(entry.path() / "status");
    if (status.find(fmt::format("\nPPid:\t{}\n", parent)) == std::string::npos) continue;
    const std::string words = text_of(entry.path() / "cmdline");
    if (words.find('\0' + role + '\0') != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

class Cluster : public ClusterFixture {
 protected:
  static std::vector<std::string> with_servers(int servers, int workers, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--set",     "plan.sync.type=ps",    "--servers", std::to_string(servers),
                                          "--workers", std::to_string(workers)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

class ClusterOfServers : public Cluster, public ::testing::WithParamInterface<int> {};

TEST_P(ClusterOfServers, TrainsLikeAllReduce) {
  const Json whole = train({"--name", "allreduce", "--plan", "dp=4"});
  const Json done = train(with_servers(GetParam(), 4, {"--name", "servers"}));
  EXPECT_EQ(done["steps"], 40);
  EXPECT_EQ(done["stopped_by"], "epochs");
  expect_same_losses("servers", "allreduce", 1e-5);
  // Running statistics move by all groups of the batch, in their order.
  EXPECT_EQ(done["test_accuracy"], whole["test_accuracy"]);
}

INSTANTIATE_TEST_SUITE_P(Servers, ClusterOfServers, ::testing::Values(1, 2, 4));

TEST_F(Cluster, ItsCheckpointsAreThoseOfOtherRuns) {
  train({"--name", "whole", "--plan", "dp=2"});
  Json job = cluster_job();
  job["train"]["epochs"] = 1;
  write_job(job);
  train(with_servers(2, 2, {"--name", "half"}));
  write_job(cluster_job());
  const Json done = train({"--name", "half", "--resume"});  // as one rank
  EXPECT_EQ(done["steps"], 40);
  expect_same_losses("half", "whole", 1e-5);
}

TEST_F(Cluster, GoesOnFromACheckpointOfAllReduceWithOtherNumbers) {
  train({"--name", "whole", "--plan", "dp=2"});
  Json job = cluster_job();
  job["train"]["epochs"] = 1;
  write_job(job);
  train({"--name", "half", "--plan", "dp=2"});
  write_job(cluster_job());
  train(with_servers(3, 2, {"--name", "half", "--resume"}));
  expect_same_losses("half", "whole", 1e-5);
}

// Its shards go to the others, who compute what it would have.
TEST_F(Cluster, AKilledWorkerChangesNothing) {
  train({"--name", "undisturbed", "--plan", "dp=4"});
  RunningProgram program({.arguments = {"train", "job.json", "--json", "--name", "killed", "--set", "plan.sync.type=ps",
                                        "--servers", "2", "--workers", "4"},
                          .directory = directory()});
  wait_for_steps(program, "killed");
  const std::vector<int> workers = members_of(program.process(), "worker");
  ASSERT_EQ(workers.size(), 4u);
  ::kill(workers[1], SIGKILL);
  const ProgramResult result = program.wait(120s);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "was killed by signal 9"));
  EXPECT_EQ(last_json(result.out)["steps"], 40);
  expect_same_losses("killed", "undisturbed", 1e-5, 1);
}

// Its replicas take over: nothing that was acknowledged is lost.
TEST_F(Cluster, AKilledServerChangesNothing) {
  train({"--name", "undisturbed", "--plan", "dp=2"});
  RunningProgram program({.arguments = {"train", "job.json", "--json", "--name", "killed", "--set", "plan.sync.type=ps",
                                        "--servers", "3", "--workers", "2"},
                          .directory = directory()});
  wait_for_steps(program, "killed");
  const std::vector<int> servers = members_of(program.process(), "server");
  ASSERT_EQ(servers.size(), 3u);
  ::kill(servers[0], SIGKILL);
  const ProgramResult result = program.wait(120s);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(last_json(result.out)["steps"], 40);
  expect_same_losses("killed", "undisturbed", 1e-5);
}

TEST_F(Cluster, LostMembersAreReplaced) {
  train({"--name", "undisturbed", "--plan", "dp=2"});
  RunningProgram program({.arguments = {"train", "job.json", "--json", "--name", "killed", "--plan",
                                        "ps,servers=2,workers=2", "--restarts", "4"},
                          .directory = directory()});
  wait_for_steps(program, "killed");
  ::kill(members_of(program.process(), "server").at(0), SIGKILL);
  ::kill(members_of(program.process(), "worker").at(0), SIGKILL);
  const ProgramResult result = program.wait(120s);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "it is replaced"));
  expect_same_losses("killed", "undisturbed", 1e-5, 1);
}

// However the workers run, all clocks are done and the model learns.
TEST_F(Cluster, WorkersThatDoNotWaitForEachOther) {
  for (const char* plan :
       {"ps,servers=2,workers=4,mode=async", "ps,servers=1,workers=4,mode=ssp,staleness=1",
        "ps,servers=2,workers=4,keep=0.05", "ps,servers=1,workers=4,wire=fp16", "ps,servers=1,workers=4,backup=1",
        "ps,servers=1,workers=2,period=2", "ps,servers=1,workers=5,rule=krum", "ps,servers=1,workers=4,rule=median"}) {
    Json job = cluster_job();
    job["train"]["batch"] = 40;
    job["train"].erase("bn_group");
    job["train"]["epochs"] = 4;
    write_job(job);
    const Json done = train({"--name", "run", "--force", "--plan", plan});
    EXPECT_EQ(done["epochs"], 4) << plan;
    EXPECT_GT(done["test_accuracy"], 0.5) << plan;  // of three classes
  }
}

// Uneven clients learn together; of even ones, half a round is enough.
TEST_F(Cluster, FederatedRounds) {
  struct Rounds {
    const char* shard;
    const char* set;
  };
  for (const Rounds& of : {Rounds{"dirichlet", "plan.sync.server=fedavg"},
                           Rounds{"dirichlet", "plan.sync.proximal=0.1"}, Rounds{"kfold", "plan.sync.fraction=0.5"}}) {
    Json job = cluster_job();
    job["model"]["layers"].erase(1);  // batch norm
    job["data"]["shard"] = of.shard;
    job["plan"]["sync"] = {{"type", "federated"}, {"clients", 4}, {"local_epochs", 2}};
    job["train"]["epochs"] = 5;
    write_job(job);
    const Json done = train({"--name", "run", "--force", "--workers", "2", "--set", of.set});
    EXPECT_EQ(done["steps"], 5) << of.set;
    EXPECT_GT(done["test_accuracy"], 0.6) << of.set;
  }
}

TEST_F(Cluster, AnInterruptSavesAndTheRunGoesOn) {
  Json job = cluster_job();
  job["train"]["epochs"] = 40;
  write_job(job);
  RunningProgram program(
      {.arguments = {"train", "job.json", "--json", "--set", "plan.sync.type=ps", "--servers", "2", "--workers", "2"},
       .directory = directory()});
  wait_for_steps(program, "job");
  program.send(SIGINT);
  const ProgramResult result = program.wait(120s);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json done = last_json(result.out);
  EXPECT_EQ(done["stopped_by"], "interrupt");
  const Checkpoint saved = load_checkpoint(checkpoints().back());
  EXPECT_EQ(saved.state.step, done["steps"].get<std::int64_t>());
  EXPECT_LT(saved.state.step, 800);
}

TEST_F(Cluster, NoProcessIsLeftBehindByAManagerThatIsKilled) {
  Json job = cluster_job();
  job["train"]["epochs"] = 1000;
  write_job(job);
  std::vector<int> members;
  {
    RunningProgram program(
        {.arguments = {"train", "job.json", "--json", "--set", "plan.sync.type=ps", "--servers", "2", "--workers", "2"},
         .directory = directory()});
    wait_for_steps(program, "job");
    members = members_of(program.process(), "worker");
    const std::vector<int> servers = members_of(program.process(), "server");
    members.insert(members.end(), servers.begin(), servers.end());
    ASSERT_EQ(members.size(), 4u);
    program.send(SIGKILL);
    program.wait(10s);
  }
  for (int tries = 0; tries < 500 && std::ranges::any_of(members, [](int id) { return ::kill(id, 0) == 0; }); ++tries)
    std::this_thread::sleep_for(20ms);
  for (const int member : members) EXPECT_NE(::kill(member, 0), 0) << member;
}

}  // namespace
}  // namespace trifold::test
