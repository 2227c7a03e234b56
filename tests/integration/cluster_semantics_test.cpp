// What clusters of parameter servers do beyond plain training: members that lie, nodes that differ, rounds of parts of
// the model, and values that are behind.
#include <csignal>
#include <sstream>
#include <thread>

#include "support/cluster_processes.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

using namespace std::chrono_literals;

// Rows of two classes, by the sign of a + b. Those of the fifth `liar` of the rows say the contrary, and shout.
std::string rows(int count, unsigned state, int liar = -1) {
  std::ostringstream text;
  const auto uniform = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>(state >> 8) / (1 << 24) * 2 - 1;
  };
  for (int row = 0; row < count; ++row) {
    const bool lies = liar >= 0 && row / (count / 5) == liar;
    const double a = uniform();
    const double b = uniform();
    const double loud = lies ? 10 : 1;
    text << loud * a << ',' << loud * b << ',' << ((a + b > 0) != lies ? 1 : 0) << '\n';
  }
  return text.str();
}

class ClusterSemantics : public JobFixture {
 protected:
  static Json rows_job() {
    return Json::parse(R"({
      "model": {"input": [2, 1, 1], "classes": 2, "layers": [
        {"type": "flatten"}, {"id": "fc1", "type": "linear", "out": 16},
        {"id": "fc2", "type": "linear", "out": 2}]},
      "data": {"type": "csv", "path": ".", "shard": "index"},
      "train": {"epochs": 20, "batch": 50, "threads": 1, "tensorboard": {"histograms": false},
                "optimizer": {"type": "sgd", "lr": 0.2, "momentum": 0.5}}})");
  }
  void write_rows(int liar = -1) const {
    testing::write_file(directory() / "train.csv", rows(500, 1, liar));
    testing::write_file(directory() / "test.csv", rows(200, 2));
  }
};

// --- whom to believe

TEST_F(ClusterSemantics, AWorkerThatLiesDoesNotSpoilWhatKrumChooses) {
  write_rows(3);
  write_job(rows_job());
  const Json spoiled = train({"--name", "mean", "--plan", "ps,servers=2,workers=5"});
  EXPECT_LT(spoiled["test_accuracy"], 0.8);
  const Json done = train({"--name", "krum", "--plan", "ps,servers=2,workers=5,rule=krum"});
  EXPECT_EQ(done["steps"], 200);
  EXPECT_GT(done["test_accuracy"], 0.93);
}

// Which rounds are complete where when the server dies is chance: all of them go on by one choice.
TEST_F(ClusterSemantics, KrumGoesOnWhenAServerIsKilled) {
  write_rows(3);
  Json job = rows_job();
  job["train"]["epochs"] = 40;
  write_job(job);
  RunningProgram program({.arguments = {"train", "job.json", "--json", "--plan", "ps,servers=3,workers=5,rule=krum"},
                          .directory = directory()});
  wait_for_steps(program, directory() / "runs" / "job");
  ::kill(members_of(program.process(), "server").at(0), SIGKILL);
  const ProgramResult result = program.wait(180s);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(last_json(result.out)["steps"], 400);
  EXPECT_GT(last_json(result.out)["test_accuracy"], 0.93);
}

}  // namespace
}  // namespace trifold::test
