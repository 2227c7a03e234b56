// `trifold eval` and `trifold export`: the model that training saved is the model that it scored.
#include "runtime/checkpoint/python.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class EvalExport : public JobFixture {
 protected:
  EvalExport() {
    Json job = small_job();
    Json& layers = job["model"]["layers"];
    layers.insert(layers.begin() + 1, Json{{"id", "bn1"}, {"type", "batch_norm"}});
    job["train"]["bn_group"] = 32;
    job["train"]["epochs"] = 3;
    write_job(job);
    done = train();
  }

  Json eval(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"eval", "job.json", "--json"});
    const ProgramResult result = trifold(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return last_json(result.out);
  }

  Json done;
};

TEST_F(EvalExport, EvalGivesWhatTrainingReported) {
  const Json score = eval({});
  EXPECT_EQ(score["test_accuracy"], done["test_accuracy"]);
  EXPECT_DOUBLE_EQ(score["test_loss"], done["test_loss"]);
  EXPECT_EQ(score["samples"], 100);  // not a whole number of batches
  EXPECT_EQ(eval({"--run", "runs/job"})["test_loss"], score["test_loss"]);
  EXPECT_EQ(eval({"--checkpoint", checkpoints().back()})["test_loss"], score["test_loss"]);
  EXPECT_EQ(eval({"--split", "train"})["samples"], 640);
  // A batch of another size scores the same samples.
  EXPECT_NEAR(eval({"--set", "train.batch=30", "--set", "train.bn_group=30"})["test_loss"].get<double>(),
              score["test_loss"].get<double>(), 1e-5);
}

TEST_F(EvalExport, AnExportedModelIsTheSameModel) {
  ASSERT_EQ(trifold({"export", "job.json", "--out", "model.safetensors"}).exit_code, 0);
  const Json score = eval({"--checkpoint", "model.safetensors"});
  EXPECT_EQ(score["test_accuracy"], done["test_accuracy"]);
  EXPECT_DOUBLE_EQ(score["test_loss"], done["test_loss"]);
}

TEST_F(EvalExport, PythonOpensAnExportedModel) {
  if (!testing::python_imports("safetensors.numpy, numpy")) GTEST_SKIP() << "Python has no safetensors with numpy";
  ASSERT_EQ(trifold({"export", "job.json", "--out", "model.safetensors"}).exit_code, 0);
  const testing::PythonResult result = testing::run_python(
      "from safetensors.numpy import load_file\n"
      "model = load_file('" +
      (directory() / "model.safetensors").string() +
      "')\n"
      "print(sorted(model))\n"
      "print(model['conv2.weight'].shape, model['conv2.weight'].dtype)\n");
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.output,
            "['bn1.bias', 'bn1.running_mean', 'bn1.running_var', 'bn1.weight', 'conv1.bias', 'conv1.weight', "
            "'conv2.bias', 'conv2.weight', 'fc.bias', 'fc.weight']\n(16, 8, 3, 3) float32\n");
}

TEST_F(EvalExport, ErrorsNameWhatIsMissing) {
  const ProgramResult missing = trifold({"eval", "job.json", "--run", "runs/other"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(says(missing.err, "runs/other holds no good checkpoint"));
  const ProgramResult other =
      trifold({"eval", "job.json", "--set", "model.layers.fc.id=head", "--checkpoint", checkpoints().back()});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(says(other.err, "no tensor 'head.weight'"));
}

TEST_F(EvalExport, ADamagedCheckpointIsPassedOver) {
  std::string bytes = testing::read_file(checkpoints().back());
  bytes[bytes.size() / 2] ^= 64;
  testing::write_file(checkpoints().back(), bytes);
  const ProgramResult result = trifold({"eval", "job.json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(says(result.err, "step-00000060.safetensors' is damaged"));
  // Named by the user, it is not exchanged for another.
  const ProgramResult named = trifold({"eval", "job.json", "--checkpoint", checkpoints().back()});
  EXPECT_EQ(named.exit_code, 2);
  EXPECT_TRUE(says(named.err, "is damaged"));
}

}  // namespace
}  // namespace trifold::test
