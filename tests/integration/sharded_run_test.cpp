// Runs whose checkpoints are several files: any plan resumes any other's, all commands read them, and a disk that is
// full ends a run with the file's name.
#include "runtime/checkpoint/checkpoint.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class ShardedRun : public JobFixture {
 protected:
  void SetUp() override {
    Json job = small_job();
    Json& layers = job["model"]["layers"];
    layers.insert(layers.begin() + 1, Json{{"id", "bn1"}, {"type", "batch_norm"}});
    job["data"]["train_samples"] = 8 * 32;
    job["train"]["bn_group"] = 8;
    job["train"]["epochs"] = 3;
    // Adam divides by what may be nearly nothing, and so makes the rounding of plans large.
    job["train"]["optimizer"] = {{"type", "sgd"}, {"lr", 0.02}, {"momentum", 0.9}};
    job["train"]["checkpoint"] = {{"shard_bytes", 3000}};
    write_job(job);
  }
};

TEST_F(ShardedRun, IsResumedByAnyPlan) {
  train({"--name", "undisturbed", "--set", "train.checkpoint.shard_bytes=2GiB"});
  train({"--plan", "dp=4", "--set", "train.epochs=1"});
  const fs::path first = checkpoints().back();
  EXPECT_EQ(first.filename(), "step-00000008.safetensors.index.json");
  EXPECT_GT(load_checkpoint(first).contents.parts().size(), 3u);
  train({"--resume", "--plan", "tp=2,pp=2,micro_batches=2", "--set", "train.epochs=2"});
  train({"--resume"});

  const std::vector<Json> expected = metrics("undisturbed");
  const std::vector<Json> lines = metrics();
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], expected[i]["step"]);
    const auto loss = expected[i]["loss"].get<double>();
    EXPECT_NEAR(lines[i]["loss"].get<double>(), loss, 1e-4 * loss) << lines[i];
  }
}

TEST_F(ShardedRun, IsReadByAllCommandsAndCheckKnowsItsSize) {
  const Json done = train();
  EXPECT_EQ(done["checkpoints"]["count"], 3);
  const Json scored = last_json(trifold({"eval", "job.json", "--json"}).out);
  EXPECT_EQ(scored["test_loss"], done["test_loss"]);
  EXPECT_EQ(
      last_json(
          trifold({"eval", "job.json", "--json", "--checkpoint", checkpoints().back().string()}).out)["test_loss"],
      done["test_loss"]);
  ASSERT_EQ(trifold({"export", "job.json", "--out", "m.safetensors"}).exit_code, 0);
  EXPECT_EQ(
      last_json(trifold({"eval", "job.json", "--json", "--checkpoint", "m.safetensors.index.json"}).out)["test_loss"],
      done["test_loss"]);

  std::size_t bytes = 0;
  const SafetensorsFile saved(checkpoints().back());
  for (const NamedTensor& tensor : saved.tensors()) bytes += tensor.data.size();
  for (const char* plan : {"dp=1", "dp=2", "tp=2,pp=2,micro_batches=2"})
    EXPECT_EQ(last_json(trifold({"check", "job.json", "--json", "--plan", plan}).out)["checkpoint_bytes"], bytes);
}

// A limit on the size of files stands for a full disk: the write ends in the middle.
TEST_F(ShardedRun, AFullDiskIsAnErrorThatNamesTheFile) {
  Json job = small_job();
  job["model"]["layers"][3]["out"] = 512;  // a checkpoint of 1 MB, much more than the other files
  write_job(job);
  const ProgramResult result = RunningProgram({.arguments = {"train", "job.json"},
                                               .under = {"sh", "-c", "ulimit -f 400; trap '' XFSZ; exec \"$@\"", "sh"},
                                               .directory = directory()})
                                   .wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(says(result.err, "cannot write 'runs/job/checkpoints/step-00000020.safetensors': File too large"));
  EXPECT_TRUE(checkpoints().empty()) << checkpoints().front();
}

}  // namespace
}  // namespace trifold::test
