// `trifold` on several simulated GPUs: train, check and compare, in one process and in several.
#include <filesystem>
#include <map>

#include "support/job_fixture.h"
#include "support/paths.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class CudaPlans : public JobFixture {
 protected:
  void SetUp() override {
    Json job = small_job();
    job["model"]["input"] = {1, 8, 8};
    Json& layers = job["model"]["layers"];
    layers[0]["bias"] = false;
    layers.insert(layers.begin() + 1, Json{{"id", "bn1"}, {"type", "batch_norm"}});
    job["data"]["train_samples"] = 4 * 16;
    job["data"]["test_samples"] = 24;  // the last batch is not full
    job["data"]["augment"] = {{{"type", "random_crop"}, {"pad", 1}}};
    job["data"]["class_weights"] = {0.2, 1, 3};  // a GPU gets a batch, and the mean of its weights, one step early
    job["train"]["batch"] = 16;
    job["train"]["bn_group"] = 4;
    job["train"]["epochs"] = 2;
    job["train"]["optimizer"] = {{"type", "sgd"}, {"lr", 0.02}, {"momentum", 0.9}};
    write_job(job);
  }

  void expect_same_losses(const std::string& a, const std::string& b) const {
    const std::vector<Json> expected = metrics(a);
    const std::vector<Json> actual = metrics(b);
    ASSERT_EQ(expected.size(), 2u * (4 + 1)) << "steps and evaluations";
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto loss = expected[i].at("loss").get<double>();
      EXPECT_NEAR(actual[i].at("loss").get<double>(), loss, 1e-4 * loss) << expected[i];
    }
  }

  std::string refusal(const std::vector<std::string>& arguments) const {
    const ProgramResult result = trifold(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  }
};

TEST_F(CudaPlans, TrainAsOneGpuAndAsCpuRanksDo) {
  train({"--name", "single", "--devices", "cuda"});
  train({"--name", "replicas", "--devices", "cuda:2", "--plan", "dp=2"});
  train({"--name", "ranks", "--devices", "cpu:2", "--plan", "dp=2"});
  train({"--name", "stages", "--devices", "cuda", "--plan", "pp=2,micro_batches=2"});
  for (const char* run : {"replicas", "ranks", "stages"}) expect_same_losses("single", run);
}

// A checkpoint belongs to the model: two GPUs go on with what four began.
TEST_F(CudaPlans, GoOnUnderAnotherPlan) {
  train({"--name", "single", "--devices", "cuda#3"});
  train({"--name", "moved", "--devices", "cuda:4", "--plan", "dp=2,tp=2", "--set", "train.epochs=1"});
  train({"--name", "moved", "--resume", "--devices", "cuda:2", "--plan", "pp=2,micro_batches=4"});
  expect_same_losses("single", "moved");
}

TEST_F(CudaPlans, AreChecked) {
  const ProgramResult result = trifold({"check", "job.json", "--devices", "cuda:2", "--plan", "dp=2", "--program"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "rank 1 (dp 1, pp 0, tp 0)"));
  EXPECT_TRUE(says(result.out, "all_reduce"));
  EXPECT_TRUE(says(result.out, "nccl data"));
}

TEST_F(CudaPlans, AreCompared) {
  const ProgramResult result =
      trifold({"compare", "job.json", "--json", "--devices", "cuda", "--plans", "dp=2; pp=2,micro_batches=2", "--steps",
               "4", "--rounds", "2", "--assert-equal", "1e-4"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json found = last_json(result.out);
  ASSERT_EQ(found["plans"].size(), 3u);
  for (const Json& plan : found["plans"]) EXPECT_LE(plan["max_loss_rel_diff"], 1e-4) << plan["plan"];
}

TEST_F(CudaPlans, AreRefusedWhereThereAreTooFewGpus) {
  const std::string sentence = "the plan has 8 ranks, a GPU each, but there are 4 GPUs; --devices cpu would work";
  EXPECT_TRUE(says(refusal({"train", "job.json", "--devices", "cuda:8", "--plan", "dp=8"}), sentence));
  EXPECT_TRUE(says(refusal({"compare", "job.json", "--devices", "cuda", "--plans", "dp=8"}), sentence));
  EXPECT_TRUE(says(refusal({"train", "job.json", "--devices", "cuda#4"}), "but there are 4 GPUs: cuda#0 to cuda#3"));
  EXPECT_TRUE(says(refusal({"train", "job.json", "--devices", "cuda:2"}),
                   "\"cuda:2\" is 2 ranks, but dp 1 x tp 1 x pp 1 is 1; \"cuda:1\" or \"cuda\" would work, or dp=2"));
  EXPECT_TRUE(says(refusal({"train", "job.json", "--devices", "cuda#1", "--plan", "dp=2"}), "\"cuda#1\" is 1 rank"));
}

// Gradients go from the workers' GPUs to the servers, and parameters back.
TEST_F(CudaPlans, WorkersOfParameterServersHaveAGpuEach) {
  train({"--name", "cpu", "--devices", "cpu"});
  for (const char* plan : {"ps,servers=2,workers=2", "ps,workers=2,tp=2"}) {
    SCOPED_TRACE(plan);
    train({"--name", "gpus", "--force", "--devices", "cuda", "--plan", plan});
    expect_same_losses("cpu", "gpus");
  }
  EXPECT_TRUE(says(refusal({"train", "job.json", "--devices", "cuda", "--plan", "ps,workers=4,tp=2"}), "8 ranks"));
}

// Each process has its GPU; NCCL goes between processes.
TEST_F(CudaPlans, RunInSeveralProcesses) {
  if (!fs::exists(mpirun_path())) GTEST_SKIP() << "there is no mpirun";
  const std::map<std::string, std::vector<std::string>> plans = {
      {"replicas", {"--plan", "dp=2"}},
      {"stages", {"--plan", "pp=2,micro_batches=2"}},
      {"rows", {"--plan", "tp=2", "--set", R"(plan.split=[{"match": "*", "by": "rows"}])"}},
      {"largest", {"--plan", "dp=2", "--set", R"(plan.sync={"type": "topk", "keep": 0.1})"}}};
  for (const auto& [name, plan] : plans) {
    SCOPED_TRACE(name);
    const auto arguments = [&](const std::string& run, std::vector<std::string> first) {
      first.insert(first.end(), {"--name", run, "--devices", "cuda"});
      first.insert(first.end(), plan.begin(), plan.end());
      return first;
    };
    train(arguments(name + "-threads", {}));
    RunningProgram program(
        {.arguments = arguments(name + "-processes", {"train", "job.json", "--json"}),
         .under = {mpirun_path(), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2"},
         .directory = directory()});
    const ProgramResult result = program.wait(std::chrono::seconds(120));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::vector<Json> expected = metrics(name + "-threads");
    const std::vector<Json> actual = metrics(name + "-processes");
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(actual[i].at("loss"), expected[i].at("loss")) << i;
  }
}

}  // namespace
}  // namespace trifold::test
