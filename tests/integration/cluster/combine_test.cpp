// Workers of one host push as one: the same training for a part of the bytes, whoever is lost.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "parallel/servers/audit/audit_check.h"
#include "support/cluster_fixture.h"

namespace trifold::test {
namespace {

using namespace std::chrono_literals;
using Programs = std::vector<std::unique_ptr<RunningProgram>>;

class CombineTest : public ClusterFixture {
 protected:
  void SetUp() override {
    Json job = cluster_job();
    job["train"]["epochs"] = 4;
    job["plan"]["sync"] = {{"type", "ps"}, {"servers", 2}, {"workers", 4}, {"combine", "host"}};
    write_job(job);
    job["plan"] = {{"dp", 4}};
    write_job(job, "whole.json");
    const ProgramResult whole = trifold({"train", "whole.json", "--quiet", "--no-report"});
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
  }

  // Two servers, and two workers of each of two hosts.
  void start_cluster(const std::vector<std::string>& more = {}) {
    const std::string address = fmt::format("tcp://127.0.0.1:{}", free_port());
    const auto member = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), more.begin(), more.end());
      return start(std::move(arguments));
    };
    manager_ = member({"manager", "job.json", "--json", "--listen", address});
    for (int i = 0; i < 2; ++i) servers_.push_back(member({"server", "--manager", address, "--audit", "logs"}));
    for (const char* host : {"a", "b"})
      for (int i = 0; i < 2; ++i)
        workers_.push_back(member({"worker", "--manager", address, "--host", host, "--audit", "logs"}));
  }

  static bool is_head(const RunningProgram& worker) {
    return worker.errors().find("speaks to servers for 2 workers of its host") != std::string::npos;
  }
  // In the midst of training.
  void end(Programs& members, std::size_t which) {
    wait_for_steps(*manager_, "job");
    members[which]->send(SIGKILL);
    std::ifstream lines(directory() / "runs/job/metrics.jsonl");
    EXPECT_LT(std::count(std::istreambuf_iterator<char>(lines), {}, '\n'), 80);
    members[which]->wait();
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void expect_as_all_reduce(int unreported = 0) {
    const ProgramResult result = manager_->wait(240s);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(last_json(result.out)["steps"], 80);
    expect_same_losses("job", "whole", 1e-5, unreported);
    expect_good_end(servers_);
    expect_good_end(workers_);
    const AuditResult audit = check_audit(read_audit(directory() / "logs"));
    EXPECT_TRUE(audit.faults.empty()) << audit.faults.front();
    EXPECT_GT(audit.acknowledged, 0);
  }

  std::unique_ptr<RunningProgram> manager_;
  Programs servers_;
  Programs workers_;
};

TEST_F(CombineTest, TwoHostsOfTwoWorkersTrainLikeAllReduce) {
  start_cluster();
  expect_as_all_reduce();
  EXPECT_EQ(std::ranges::count_if(workers_, [](const auto& worker) { return is_head(*worker); }), 2);
}

// With all it held; the other worker of its host goes on with the servers themselves, or through itself.
TEST_F(CombineTest, AKilledHeadChangesNothing) {
  start_cluster();
  wait_for_steps(*manager_, "job");  // by then everybody knows
  const auto head = std::ranges::find_if(workers_, [](const auto& worker) { return is_head(*worker); });
  ASSERT_NE(head, workers_.end());
  end(workers_, static_cast<std::size_t>(head - workers_.begin()));
  expect_as_all_reduce(1);
}

TEST_F(CombineTest, AKilledWorkerOfAHeadChangesNothing) {
  start_cluster();
  wait_for_steps(*manager_, "job");
  const auto other = std::ranges::find_if_not(workers_, [](const auto& worker) { return is_head(*worker); });
  ASSERT_NE(other, workers_.end());
  end(workers_, static_cast<std::size_t>(other - workers_.begin()));
  expect_as_all_reduce(1);
}

TEST_F(CombineTest, AKilledServerChangesNothing) {
  start_cluster();
  end(servers_, 0);
  expect_as_all_reduce();
}

TEST_F(CombineTest, WithKeysHeadsListenByTheirOwn) {
  ASSERT_EQ(trifold({"keys", "keys"}).exit_code, 0);
  start_cluster({"--keys", "keys"});
  expect_as_all_reduce();
}

// All are on this machine: one stream of the four goes to the servers.
TEST_F(CombineTest, BytesAreDividedByTheWorkersOfAHost) {
  Json job = cluster_job();
  job["model"]["layers"].insert(job["model"]["layers"].begin() + 5,
                                Json::parse(R"({"id": "wide", "type": "linear", "out": 64})"));
  job["train"]["epochs"] = 1;
  write_job(job);
  const ProgramResult compared =
      trifold({"compare", "job.json", "--json", "--quiet", "--no-report", "--plans",
               "ps,servers=2,workers=4; ps,servers=2,workers=4,combine=host", "--assert-equal", "1e-5"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const auto bytes = [](const std::vector<double>& of_workers) {
    return std::accumulate(of_workers.begin(), of_workers.end(), 0.0);
  };
  const Json plans = last_json(compared.out)["plans"];
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_NEAR(bytes(plans[1]["bytes_sent"]["worker"]) / bytes(plans[2]["bytes_sent"]["worker"]), 4, 0.2);
  EXPECT_NEAR(bytes(plans[1]["served"]["bytes_received"]) / bytes(plans[2]["served"]["bytes_received"]), 4, 0.2);
}

// Each worker has two clients: they are combined, too.
TEST_F(CombineTest, FederatedClientsOfAHostAreOnePush) {
  Json job = cluster_job();
  job["model"]["layers"].erase(1);  // batch norm
  job["data"]["shard"] = "dirichlet";
  job["plan"]["sync"] = {{"type", "federated"}, {"clients", 4}, {"fraction", 0.75}, {"local_epochs", 2}};
  job["train"]["epochs"] = 11;
  write_job(job);
  train({"--name", "apart", "--workers", "2"});
  train({"--name", "together", "--workers", "2", "--set", "plan.sync.combine=host"});
  expect_same_losses("together", "apart", 1e-4);
}

}  // namespace
}  // namespace trifold::test
