// Managers that are lost: the others go on, and the next manager does where the one before stood.
#include <csignal>
#include <thread>

#include <fmt/format.h>

#include "support/cluster_fixture.h"
#include "support/etcd_cluster.h"

namespace trifold::test {
namespace {

using namespace std::chrono_literals;

class ManagerTest : public ClusterFixture {
 protected:
  // Longer than workers get without a manager: they wait for it at the ends of epochs.
  void SetUp() override {
    Json job = cluster_job();
    job["train"]["epochs"] = 8;
    job["plan"]["sync"] = {{"type", "ps"}, {"servers", 2}, {"workers", 2}};
    write_job(job);
    job["plan"] = {{"dp", 2}};
    write_job(job, "whole.json");
    const ProgramResult whole = trifold({"train", "whole.json", "--quiet", "--no-report"});
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
  }

  std::vector<std::string> manager(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"manager", "job.json", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  static std::vector<std::string> with_etcd(const EtcdCluster& etcd, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--etcd", etcd.url(0), "--job", "job"});
    return arguments;
  }

  // An epoch is evaluated, and the next one under way.
  static void wait_for_epoch(RunningProgram& program) {
    while (program.running() && program.output().find("epoch") == std::string::npos) std::this_thread::sleep_for(1ms);
  }

  void expect_as_undisturbed(RunningProgram& program, int unreported = 0) const {
    const ProgramResult result = program.wait(120s);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(last_json(result.out)["steps"], 160);
    EXPECT_EQ(last_json(result.out)["stopped_by"], "epochs");
    expect_same_losses("job", "whole", 1e-5, unreported);
  }
};

TEST_F(ManagerTest, OneThatIsStartedAgainGoesOn) {
  const std::string address = fmt::format("tcp://127.0.0.1:{}", free_port());
  auto first = start(manager({"--listen", address}));
  const auto servers = start(2, {"server", "--manager", address});
  const auto workers = start(2, {"worker", "--manager", address});
  for (int i = 0; i < 2; ++i) {
    wait_for_epoch(*first);
    first->send(SIGKILL);
    first->wait();
    std::this_thread::sleep_for(500ms * i);  // others come to where they wait for it, or do not
    first = start(manager({"--listen", address}));
  }
  expect_as_undisturbed(*first);
  expect_good_end(servers);
  expect_good_end(workers);
  EXPECT_FALSE(std::filesystem::exists(directory() / "runs/job.registry.json"));
}

// The model is lost with the servers. Workers that were left behind begin anew with the others.
TEST_F(ManagerTest, WithoutServersTheJobGoesOnFromItsCheckpoint) {
  const std::string address = fmt::format("tcp://127.0.0.1:{}", free_port());
  auto first = start(manager({"--listen", address}));
  auto servers = start(2, {"server", "--manager", address});
  const auto workers = start(2, {"worker", "--manager", address});
  wait_for_epoch(*first);
  first->send(SIGKILL);
  for (const auto& server : servers) server->send(SIGKILL);
  first->wait();
  for (const auto& server : servers) server->wait();
  first = start(manager({"--listen", address, "--resume"}));
  servers = start(2, {"server", "--manager", address});
  expect_as_undisturbed(*first);
  expect_good_end(servers);
  expect_good_end(workers);
}

TEST_F(ManagerTest, OneThatStandsByTakesOver) {
  if (EtcdCluster::missing() != nullptr) GTEST_SKIP() << EtcdCluster::missing();
  EtcdCluster etcd(1);
  const std::vector<std::string> managers = with_etcd(etcd, manager({"--listen", "tcp://127.0.0.1:*"}));
  const auto first = start(managers);
  const auto servers = start(2, with_etcd(etcd, {"server"}));
  const auto workers = start(2, with_etcd(etcd, {"worker"}));
  wait_for_epoch(*first);
  const auto second = start(managers);
  const auto third = start(managers);
  std::this_thread::sleep_for(200ms);  // they may stand by when the first one dies, or come later
  first->send(SIGKILL);
  while (second->running() && third->running()) std::this_thread::sleep_for(5ms);
  // One of them led, and the other has nothing left to do.
  const ProgramResult results[] = {second->wait(60s), third->wait(60s)};
  for (const ProgramResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json done = last_json(results[0].out.empty() ? results[1].out : results[0].out);
  EXPECT_TRUE(results[0].out.empty() || results[1].out.empty());
  EXPECT_EQ(done["steps"], 160);
  expect_same_losses("job", "whole", 1e-5);
  expect_good_end(servers);
  expect_good_end(workers);
}

// Longer than leases live: everybody is given up at once, and nobody has lost anything.
TEST_F(ManagerTest, AllComeBackWhenEtcdHasStoodStill) {
  if (EtcdCluster::missing() != nullptr) GTEST_SKIP() << EtcdCluster::missing();
  EtcdCluster etcd(1);
  const auto first = start(with_etcd(etcd, manager({"--listen", "tcp://127.0.0.1:*"})));
  const auto servers = start(2, with_etcd(etcd, {"server"}));
  const auto workers = start(2, with_etcd(etcd, {"worker"}));
  wait_for_epoch(*first);
  etcd.pause(0);
  std::this_thread::sleep_for(6s);
  etcd.go_on(0);
  expect_as_undisturbed(*first);
  expect_good_end(servers);
  expect_good_end(workers);
}

}  // namespace
}  // namespace trifold::test
