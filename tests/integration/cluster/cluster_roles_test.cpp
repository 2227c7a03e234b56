// The members of a cluster one by one, as on several machines: named by a cluster file or TF_CONFIG, as the tutorials
// of parameter servers have it, and workers that are folded themselves.
#include <fmt/format.h>

#include "support/cluster_fixture.h"

namespace trifold::test {
namespace {

using namespace std::chrono_literals;

class ClusterRoles : public ClusterFixture {
 protected:
  static Json addresses(std::size_t count) {
    Json found = Json::array();
    while (found.size() < count) found.push_back(fmt::format("127.0.0.1:{}", free_port()));
    return found;
  }

  static void expect_done(RunningProgram& manager) {
    const ProgramResult result = manager.wait(120s);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(last_json(result.out)["steps"], 40);
  }
};

TEST_F(ClusterRoles, AreNamedByAFile) {
  train({"--name", "whole", "--plan", "dp=2"});
  write_job({{"ps", addresses(1)}, {"worker", addresses(2)}}, "cluster.json");
  const auto manager = start({"manager", "job.json", "--json", "--cluster", "cluster.json", "--set",
                              "plan.sync.type=ps"});  // where the first worker is: no chief is named
  std::vector<std::unique_ptr<RunningProgram>> members;
  members.push_back(start({"server", "--cluster", "cluster.json", "--index", "0"}));
  for (const char* index : {"0", "1"})
    members.push_back(start({"worker", "--cluster", "cluster.json", "--index", index}));
  expect_done(*manager);
  expect_good_end(members);
  expect_same_losses("job", "whole", 1e-5);

  const ProgramResult refused = trifold({"server", "--cluster", "cluster.json", "--index", "1"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(says(refused.err, "cluster.json has 1 addresses of servers: there is no --index 1"));
}

TEST_F(ClusterRoles, AreNamedByTfConfig) {
  const Json cluster = {{"chief", addresses(1)}, {"ps", addresses(2)}, {"worker", addresses(1)}};
  const auto as = [&](const char* type, int index) -> std::vector<std::string> {
    const Json config = {{"cluster", cluster}, {"task", {{"type", type}, {"index", index}}}};
    return {"env", "TF_CONFIG=" + config.dump()};
  };
  const auto manager = start({"manager", "job.json", "--json", "--set", "plan.sync.type=ps"}, as("chief", 0));
  std::vector<std::unique_ptr<RunningProgram>> members;
  members.push_back(start({"server"}, as("ps", 0)));
  members.push_back(start({"server"}, as("ps", 1)));
  members.push_back(start({"worker"}, as("worker", 0)));
  expect_done(*manager);
  expect_good_end(members);

  const ProgramResult refused = start({"worker"}, as("ps", 0))->wait(60s);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(says(refused.err, "TF_CONFIG makes this process server 0"));
}

// A worker is itself any plan.
TEST_F(ClusterRoles, AWorkerMayBeFoldedInEveryWay) {
  Json job = cluster_job();
  job["train"]["bn_group"] = 4;  // of which a micro-batch of half a worker's half batch has one
  job["train"]["epochs"] = 1;
  write_job(job);
  train({"--name", "whole"});
  for (const char* plan : {"ps,workers=2,tp=2", "ps,workers=2,servers=2,pp=2,micro_batches=2", "ps,workers=2,dp=2",
                           "ps,dp=2,pp=2,micro_batches=2"}) {
    SCOPED_TRACE(plan);
    const Json done = train({"--name", "folded", "--force", "--plan", plan});
    EXPECT_EQ(done["steps"], 20);
    expect_same_losses("folded", "whole", 1e-5);
  }
}

}  // namespace
}  // namespace trifold::test
