// Bounded staleness over a whole run, with a worker that stands still again and again: what is measured keeps to the
// bound, and users are told.
#include <csignal>
#include <thread>

#include <fmt/format.h>

#include "support/cluster_fixture.h"

namespace trifold::test {
namespace {

using namespace std::chrono_literals;

TEST_F(ClusterFixture, MeasuredStalenessNeverExceedsTheBound) {
  Json job = cluster_job();
  job["train"]["epochs"] = 30;
  job["plan"]["sync"] = {{"type", "ps"}, {"mode", "ssp"}, {"staleness", 2}, {"servers", 2}, {"workers", 3}};
  job["train"]["batch"] = 24;
  job["data"]["train_samples"] = 20 * 24;
  write_job(job);
  const std::string address = fmt::format("tcp://127.0.0.1:{}", free_port());
  const auto manager = start({"manager", "job.json", "--json", "--listen", address});
  const auto servers = start(2, {"server", "--manager", address});
  const auto workers = start(3, {"worker", "--manager", address});
  wait_for_steps(*manager, "job");
  while (manager->running()) {
    workers[0]->send(SIGSTOP);
    std::this_thread::sleep_for(60ms);
    workers[0]->send(SIGCONT);
    std::this_thread::sleep_for(20ms);
  }
  const ProgramResult result = manager->wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_good_end(servers);
  expect_good_end(workers);

  int stale = 0;
  int steps = 0;
  for (const Json& line : metrics()) {
    if (line["phase"] != "train") continue;
    ++steps;
    EXPECT_LE(line["staleness_worst"], 2) << line;
    EXPECT_LE(line["staleness_mean"], line["staleness_worst"].get<double>()) << line;
    stale += line["stale_shards"] > 0 ? 1 : 0;
  }
  EXPECT_EQ(steps, 600);
  EXPECT_GT(stale, 0) << "nobody was ever behind";
  EXPECT_TRUE(says(result.err, "stale values: in "));
  EXPECT_TRUE(says(result.err, "at most 2 clocks old (bound 2)"));
}

}  // namespace
}  // namespace trifold::test
