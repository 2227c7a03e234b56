// Parameter servers and workers as processes: the same training as all-reduce, whoever comes and goes.
#include <csignal>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "parallel/servers/audit/audit_check.h"
#include "runtime/checkpoint/checkpoint.h"
#include "support/cluster_fixture.h"
#include "support/cluster_processes.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

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

// A worker trains on its part of a batch, but divides the loss by the class weights of the whole.
TEST_F(Cluster, WorkersShareTheMeanOfClassWeights) {
  const std::vector<std::string> weights = {"--set", "data.class_weights=[0.2,1,3]"};
  train({"--name", "allreduce", "--plan", "dp=4", weights[0], weights[1]});
  train(with_servers(2, 4, {"--name", "servers", weights[0], weights[1]}));
  expect_same_losses("servers", "allreduce", 1e-5);
}

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

// --- servers that come and go, as their audit logs show it

// By slice, the server that owns it in an epoch, by its id.
using Owners = std::map<int, std::string>;

std::map<std::int64_t, Owners> owners_by_epoch(const fs::path& logs) {
  std::map<std::int64_t, Owners> owners;
  if (!fs::exists(logs)) return owners;
  for (const AuditFile& file : read_audit(logs)) {
    for (const Json& line : json_lines(file.text.substr(0, file.text.rfind('\n') + 1)))
      if (line.contains("own")) owners[line["epoch"]][line["own"]] = file.name;
  }
  return owners;
}

// Of the slices, from one epoch to another.
double share_that_moved(const Owners& from, const Owners& to) {
  double moved = 0;
  for (const auto& [slice, owner] : to) moved += from.at(slice) == owner ? 0 : 1;
  return moved / static_cast<double>(to.size());
}

class ClusterThatChanges : public Cluster {
 protected:
  // Enough slices for the ring to be even, and more steps than anybody waits for.
  void SetUp() override {
    Json job = cluster_job();
    Json& layers = job["model"]["layers"];
    layers.insert(layers.end() - 1, Json::parse(R"({"id": "hidden", "type": "linear", "out": 64})"));
    job["train"]["epochs"] = 20;
    write_job(job);
    train({"--name", "undisturbed", "--plan", "dp=2"});
    job["train"]["epochs"] = 10000;
    write_job(job);
  }

  RunningProgram::Args job_with_servers(const std::string& plan) const {
    return {.arguments = {"train", "job.json", "--json", "--name", "changed", "--plan", plan, "--audit", "logs"},
            .directory = directory()};
  }

  // Until all slices have owners in an epoch after `before`, and the last steps were done with them.
  Owners wait_for_owners_after(RunningProgram& program, std::int64_t before) const {
    const std::size_t slices = owners_by_epoch(logs()).at(1).size();
    while (program.running()) {
      const auto owners = owners_by_epoch(logs());
      if (!owners.empty() && owners.rbegin()->first > before && owners.rbegin()->second.size() == slices) {
        const std::size_t done = losses("changed").size();
        while (program.running() && losses("changed").size() < done + 5) std::this_thread::sleep_for(5ms);
        return owners.rbegin()->second;
      }
      std::this_thread::sleep_for(5ms);
    }
    return {};
  }

  void expect_good_end(RunningProgram& program) const {
    program.send(SIGINT);
    const ProgramResult result = program.wait(120s);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const AuditResult audit = check_audit(read_audit(logs()));
    EXPECT_TRUE(audit.faults.empty()) << audit.faults.front();
    EXPECT_GT(audit.acknowledged, 0);
    const std::vector<double> changed = losses("changed");
    const std::vector<double> undisturbed = losses("undisturbed");
    ASSERT_GT(std::min(changed.size(), undisturbed.size()), 5u);
    for (std::size_t i = 0; i < std::min(changed.size(), undisturbed.size()); ++i)
      ASSERT_NEAR(changed[i], undisturbed[i], 1e-5 * undisturbed[i]) << "step " << i + 1;
  }

  fs::path logs() const { return directory() / "logs"; }
};

TEST_F(ClusterThatChanges, AServerThatComesTakesAThirdWhileTrainingGoesOn) {
  RunningProgram program(job_with_servers("ps,servers=2,workers=2"));
  wait_for_steps(program, "changed");
  const std::string words = command_line_of(members_of(program.process(), "server").at(0));
  const std::string manager = words.substr(words.find("tcp://"));
  const auto third = start({"server", "--quiet", "--manager", manager.c_str(), "--audit", logs().string()});
  const Owners before = owners_by_epoch(logs()).at(1);
  const Owners after = wait_for_owners_after(program, 1);
  const double moved = share_that_moved(before, after);
  EXPECT_GT(moved, 0.2);
  EXPECT_LT(moved, 0.5);
  expect_good_end(program);
  EXPECT_EQ(third->wait(60s).exit_code, 0);
}

TEST_F(ClusterThatChanges, AServerThatGoesLeavesItsThirdToTheOthers) {
  RunningProgram program(job_with_servers("ps,servers=3,workers=2"));
  wait_for_steps(program, "changed");
  const Owners before = owners_by_epoch(logs()).at(1);
  ::kill(members_of(program.process(), "server").at(1), SIGTERM);
  const Owners after = wait_for_owners_after(program, 1);
  const double moved = share_that_moved(before, after);
  EXPECT_GT(moved, 0.2);
  EXPECT_LT(moved, 0.5);
  expect_good_end(program);
}

}  // namespace
}  // namespace trifold::test
