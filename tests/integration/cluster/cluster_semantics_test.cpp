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

// --- when nodes agree

class NodesThatStop : public ClusterSemantics {
 protected:
  void SetUp() override { write_rows(); }
  static Json federated_job() {
    Json job = rows_job();
    job["plan"]["sync"] = {{"type", "federated"}, {"clients", 4}, {"local_epochs", 1}};
    job["data"]["shard"] = "kfold";
    job["train"]["epochs"] = 60;
    job["train"]["batch"] = 25;
    job["train"]["schedule"] = {{"type", "cosine"}};  // so that at last nobody goes far
    return job;
  }
  // The figures of the nodes, epoch by epoch.
  std::vector<double> figures(const std::string& name, const std::string& run = "job") const {
    std::vector<double> found;
    for (const Json& line : metrics(run))
      if (line["phase"] == "nodes" && line.contains(name)) found.push_back(line[name]);
    return found;
  }
};

TEST_F(NodesThatStop, ByTheDistanceOfTheirModels) {
  Json job = federated_job();
  job["train"]["stop"] = {{"model_distance", 0.02}};
  write_job(job);
  const Json done = train({"--workers", "2"});
  EXPECT_EQ(done["stopped_by"], "model_distance");
  const std::vector<double> distances = figures("model_distance");
  ASSERT_EQ(distances.size(), done["epochs"]);
  EXPECT_GT(distances.size(), 2u);
  for (std::size_t i = 0; i + 1 < distances.size(); ++i) EXPECT_GE(distances[i], 0.02) << i;
  EXPECT_LT(distances.back(), 0.02);
  EXPECT_EQ(checkpoints().back().filename(), "step-" + std::string(8 - std::to_string(distances.size()).size(), '0') +
                                                 std::to_string(distances.size()) + ".safetensors");
}

TEST_F(NodesThatStop, ByTheirOutputsOnAProbeBatch) {
  Json job = federated_job();
  job["train"]["stop"] = {{"output_kl", 1e-4}};
  write_job(job);
  const Json done = train({"--workers", "2", "--servers", "2"});
  EXPECT_EQ(done["stopped_by"], "output_kl");
  const std::vector<double> divergences = figures("output_kl");
  ASSERT_EQ(divergences.size(), done["epochs"]);
  EXPECT_LT(divergences.back(), 1e-4);
  EXPECT_GE(divergences.front(), 1e-4);
}

// Of workers that push once in two steps, and of such that do not wait: the figures are there, and nothing stops.
TEST_F(NodesThatStop, AreComparedWhereverTheyCanDiffer) {
  for (const char* plan : {"ps,workers=2,period=2", "ps,workers=2,rotate=2", "ps,workers=2,mode=async",
                           "ps,workers=2,mode=ssp,staleness=1"}) {
    Json job = rows_job();
    job["data"].erase("shard");
    job["train"]["epochs"] = 3;
    job["train"]["stop"] = {{"model_distance", 1e-12}};
    write_job(job);
    const Json done = train({"--force", "--plan", plan});
    EXPECT_EQ(done["stopped_by"], "epochs") << plan;
    EXPECT_EQ(figures("model_distance").size(), 3u) << plan;
  }
}

TEST_F(NodesThatStop, WhenEachHasHadItsOwnRule) {
  Json job = rows_job();
  job["train"]["epochs"] = 200;
  job["train"]["stop"] = {{"loss_delta", 2e-3}, {"each_node", true}};
  write_job(job);
  const Json done = train({"--plan", "ps,workers=2"});
  EXPECT_EQ(done["stopped_by"], "each_node");
  const std::vector<double> finished = figures("finished_nodes");
  ASSERT_EQ(finished.size(), done["epochs"]);
  EXPECT_EQ(finished.front(), 0);
  EXPECT_EQ(finished.back(), 2);
}

// Whose model is lost is not compared; the run goes on, and ends by its rule.
TEST_F(NodesThatStop, GoOnWhenAWorkerIsKilled) {
  Json job = federated_job();
  job["train"]["epochs"] = 100;
  job["train"]["stop"] = {{"model_distance", 1e-12}};
  write_job(job);
  RunningProgram program({.arguments = {"train", "job.json", "--json", "--workers", "2"}, .directory = directory()});
  wait_for_steps(program, directory() / "runs" / "job");
  ::kill(members_of(program.process(), "worker").at(0), SIGKILL);
  const ProgramResult result = program.wait(180s);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(last_json(result.out)["epochs"], 100);
  EXPECT_GE(figures("model_distance").size(), 90u);
}

}  // namespace
}  // namespace trifold::test
