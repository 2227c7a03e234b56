// A run that is stopped, by Ctrl-C or by kill -9 at any moment, and resumed leaves what an undisturbed one leaves, to
// the bit: the model, the optimiser's state and every line of metrics.
#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "runtime/checkpoint/safetensors.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 160;

// Everything that has a memory: batch norm, dropout, augmentation, momentum, a schedule, checkpoints within epochs.
Json disturbed_job() {
  Json job = small_job();
  Json& layers = job["model"]["layers"];
  layers.insert(layers.begin() + 1, Json{{"id", "bn1"}, {"type", "batch_norm"}});
  layers.insert(layers.end() - 1, Json{{"id", "fc1"}, {"type", "linear"}, {"out", 24}});
  layers.insert(layers.end() - 1, Json{{"id", "drop"}, {"type", "dropout"}, {"p", 0.2}});
  job["data"]["train_samples"] = 40 * 32;
  job["data"]["augment"] = {{{"type", "random_crop"}, {"pad", 1}}, {{"type", "cutout"}, {"size", 3}}};
  job["train"] = {{"epochs", 4},
                  {"batch", 32},
                  {"bn_group", 16},
                  {"threads", 2},
                  {"optimizer", {{"type", "sgd"}, {"lr", 0.05}, {"momentum", 0.9}, {"weight_decay", 1e-4}}},
                  {"schedule", {{"type", "cosine"}}},
                  {"checkpoint", {{"every_steps", 7}, {"keep", 3}}}};
  return job;
}

class Resume : public JobFixture {
 protected:
  Resume() {
    write_job(disturbed_job());
    EXPECT_EQ(train({"--name", "undisturbed"})["steps"], kSteps);
  }

  std::string metrics_text(const std::string& run) const {
    return testing::read_file(directory() / "runs" / run / "metrics.jsonl");
  }

  // Trains until so many lines of metrics are there, then sends the signal.
  ProgramResult train_and_stop(const std::string& mode, std::ptrdiff_t lines, int signal) const {
    std::vector<std::string> arguments = {"train", "job.json", "--json"};
    if (!mode.empty()) arguments.push_back(mode);
    RunningProgram program({.arguments = arguments, .directory = directory()});
    const auto line_count = [&] {
      const std::string text = metrics_text("job");
      return std::count(text.begin(), text.end(), '\n');
    };
    while (program.running() && line_count() < lines) std::this_thread::sleep_for(std::chrono::microseconds(300));
    program.send(signal);
    return program.wait();
  }

  void expect_same_as_undisturbed() const {
    const SafetensorsFile expected(checkpoints("undisturbed").back());
    const SafetensorsFile found(checkpoints("job").back());
    ASSERT_EQ(found.tensors().size(), expected.tensors().size());
    for (const NamedTensor& tensor : expected.tensors()) {
      const NamedTensor* other = found.find(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      ASSERT_EQ(other->data.size(), tensor.data.size()) << tensor.name;
      EXPECT_EQ(std::memcmp(other->data.data(), tensor.data.data(), tensor.data.size()), 0) << tensor.name;
    }
    EXPECT_NE(expected.find("optimizer.conv1.weight.momentum"), nullptr);
    EXPECT_NE(expected.find("bn1.running_mean"), nullptr);
    EXPECT_EQ(metrics_but_times("job"), metrics_but_times("undisturbed"));
  }
};

TEST_F(Resume, AfterCtrlC) {
  const ProgramResult stopped = train_and_stop("", 50, SIGINT);
  ASSERT_EQ(stopped.exit_code, 0) << stopped.err;
  const Json done = last_json(stopped.out);
  ASSERT_EQ(done["stopped_by"], "interrupt");
  EXPECT_LT(done["steps"], kSteps);
  EXPECT_EQ(metrics().back()["step"], done["steps"]);  // the step that was under way is kept
  EXPECT_GT(done["train_loss"], 0.0);

  const ProgramResult resumed = trifold({"train", "job.json", "--json", "--resume"});
  EXPECT_EQ(resumed.exit_code, 0);
  EXPECT_TRUE(says(resumed.err, "resumed from runs/job/checkpoints/step-"));
  EXPECT_EQ(last_json(resumed.out)["steps"], kSteps);
  expect_same_as_undisturbed();
}

TEST_F(Resume, AfterKillsAtAnyMoment) {
  std::minstd_rand random(20240717);
  std::ptrdiff_t lines = 0;
  int killed = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    lines += 1 + static_cast<std::ptrdiff_t>(random() % 30);
    const ProgramResult result = train_and_stop(attempt == 0 ? "" : "--resume", lines, SIGKILL);
    if (result.signal != SIGKILL) break;  // it had ended before
    ++killed;
  }
  EXPECT_GE(killed, 3);
  const ProgramResult resumed = trifold({"train", "job.json", "--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  expect_same_as_undisturbed();
}

TEST_F(Resume, PassesOverADamagedCheckpoint) {
  ASSERT_EQ(train_and_stop("", 60, SIGKILL).signal, SIGKILL);
  const fs::path newest = checkpoints().back();
  std::string bytes = testing::read_file(newest);
  bytes[bytes.size() - 100] ^= 1;
  testing::write_file(newest, bytes);

  const ProgramResult resumed = trifold({"train", "job.json", "--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(says(resumed.err, "going back to the checkpoint before"));
  EXPECT_TRUE(says(resumed.err, newest.filename().string() + "' is damaged"));
  expect_same_as_undisturbed();
}

TEST_F(Resume, BeginsAgainWhereNoCheckpointIsGood) {
  ASSERT_EQ(train_and_stop("", 3, SIGKILL).signal, SIGKILL);
  for (const fs::path& file : checkpoints()) testing::write_file(file, "");
  ASSERT_EQ(trifold({"train", "job.json", "--resume"}).exit_code, 0);
  expect_same_as_undisturbed();
}

TEST_F(Resume, OfAFinishedRunChangesNothing) {
  const Json first = train();
  const Json again = train({"--resume"});
  for (const char* key : {"steps", "epochs", "train_loss", "test_loss", "test_accuracy", "stopped_by"})
    EXPECT_EQ(again[key], first[key]) << key;
  expect_same_as_undisturbed();
}

TEST_F(Resume, GoesOnForMoreEpochs) {
  train();
  EXPECT_EQ(train({"--resume", "--set", "train.epochs=5"})["steps"], kSteps / 4 * 5);
}

TEST_F(Resume, RefusesAnotherSeedNetworkOrBatch) {
  train_and_stop("", 50, SIGINT);
  ASSERT_NE(metrics().back()["step"].get<int>() % 40, 0) << "stopped by chance at the end of an epoch";
  EXPECT_TRUE(says(trifold({"train", "job.json", "--resume", "--set", "train.seed=5"}).err, "seed"));
  EXPECT_TRUE(
      says(trifold({"train", "job.json", "--resume", "--set", "model.layers.conv1.out=9"}).err, "'conv1.weight'"));
  const int done = metrics().back()["step"].get<int>() % 40 * 32;
  const int other = done % 48 != 0 ? 48 : 112;
  EXPECT_TRUE(says(trifold({"train", "job.json", "--resume", "--set", "train.batch=" + std::to_string(other)}).err,
                   "train.batch"));
  EXPECT_EQ(trifold({"train", "job.json", "--resume"}).exit_code, 0);  // refusals left the run alone
  expect_same_as_undisturbed();
}

}  // namespace
}  // namespace trifold::test
