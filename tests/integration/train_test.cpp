// `trifold train`: what it learns, prints and leaves, what ends it, and every kind of optimiser, schedule and data.
#include <algorithm>
#include <sstream>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/picture_files.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class Train : public JobFixture {};

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

TEST_F(Train, LearnsAndSaysWhatItDid) {
  Json job = small_job();
  job["data"]["train_samples"] = 1920;
  job["train"]["epochs"] = 6;
  write_job(job);
  const ProgramResult result = trifold({"train", "job.json", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0]["event"], "epoch");
  EXPECT_EQ(lines[0]["epoch"], 1);
  EXPECT_EQ(lines[0]["step"], 60);
  const Json& done = lines.back();
  EXPECT_EQ(done["event"], "done");
  EXPECT_EQ(done["steps"], 360);
  EXPECT_EQ(done["epochs"], 6);
  EXPECT_EQ(done["stopped_by"], "epochs");
  EXPECT_LT(done["train_loss"], lines[0]["train_loss"]);
  EXPECT_GT(done["test_accuracy"], 0.8);
  EXPECT_EQ(done["test_accuracy"], lines[5]["test_accuracy"]);
  EXPECT_GT(done["images_per_s"], 0.0);
  EXPECT_GT(done["peak_bytes"], 1'000'000);
}

TEST_F(Train, ShowsPlainLinesWhereThereIsNoTerminal) {
  write_job(small_job());
  const ProgramResult result = trifold({"train", "job.json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(says(result.err, "epoch   2/2  loss "));
  EXPECT_TRUE(says(result.err, "test loss "));
  EXPECT_FALSE(says(result.err, "\x1b"));
  EXPECT_FALSE(says(result.err, "\r"));
  EXPECT_EQ(result.out.find("done: 2 epochs, 40 steps, stopped by epochs, test accuracy "), 0u) << result.out;
  EXPECT_EQ(trifold({"train", "job.json", "--force", "--quiet"}).err, "");
}

TEST_F(Train, SaysWhichSamplesDoNotFillABatch) {
  Json job = small_job();
  const std::string line = "training samples, others each time: they do not fill a batch of ";
  write_job(job);
  EXPECT_FALSE(says(trifold({"train", "job.json"}).err, line));
  job["data"]["train_samples"] = 70;
  job["train"]["batch"] = 32;
  write_job(job);
  EXPECT_TRUE(
      says(trifold({"train", "job.json", "--force"}).err, "each epoch leaves out 6 of the 70 " + line + "32\n"));
  EXPECT_EQ(trifold({"train", "job.json", "--force", "--quiet"}).err, "");
}

TEST_F(Train, LeavesARunFolder) {
  write_job(small_job());
  train();
  const fs::path run = directory() / "runs/job";
  const std::vector<Json> lines = metrics();
  ASSERT_EQ(lines.size(), 42u);  // 40 steps, 2 evaluations
  EXPECT_EQ(lines[0], Json({{"step", 1},
                            {"epoch", 1},
                            {"phase", "train"},
                            {"loss", lines[0]["loss"]},
                            {"accuracy", lines[0]["accuracy"]},
                            {"learning_rate", 0.005},
                            {"images_per_s", lines[0]["images_per_s"]},
                            {"time_s", lines[0]["time_s"]}}));
  EXPECT_EQ(lines[20]["phase"], "test");
  ASSERT_EQ(checkpoints().size(), 2u);
  EXPECT_EQ(checkpoints().back().filename(), "step-00000040.safetensors");
  EXPECT_EQ(testing::count_entries(run / "tensorboard"), 1u);

  // The resolved job is a job: it trains to the same model.
  fs::copy(run / "job.json", directory() / "again.json");
  EXPECT_EQ(trifold({"train", "again.json", "--quiet", "--name", "again"}).exit_code, 0);
  // Tensors, not files: the state beside them holds the seconds trained.
  const SafetensorsFile first(checkpoints("job").back());
  const SafetensorsFile again(checkpoints("again").back());
  ASSERT_EQ(again.tensors().size(), first.tensors().size());
  for (const NamedTensor& tensor : first.tensors()) {
    const NamedTensor* same = again.find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(same->data, tensor.data)) << tensor.name;
  }
  EXPECT_EQ(metrics_but_times("again"), metrics_but_times("job"));
}

TEST_F(Train, MetricsSayHowFastAStepWasAndHowLongTheRunHasTrained) {
  write_job(small_job());
  train({"--set", "train.epochs=1"});
  train({"--resume"});
  double time_s = 0;
  for (const Json& line : metrics()) {
    if (line["phase"] != "train") {
      EXPECT_FALSE(line.contains("time_s"));
      continue;
    }
    // The time goes on where the first process stopped, by what each step took.
    const double step_s = line["time_s"].get<double>() - time_s;
    EXPECT_GT(step_s, 0.0) << line;
    EXPECT_NEAR(32 / line["images_per_s"].get<double>(), step_s, 1e-9 + 1e-6 * step_s) << line;
    time_s = line["time_s"].get<double>();
  }
}

TEST_F(Train, DoesNotOverwriteARunUnlessTold) {
  write_job(small_job());
  train();
  const ProgramResult refused = trifold({"train", "job.json"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(says(refused.err, "already holds a run"));
  EXPECT_EQ(lines_of(refused.err), 1u);
  EXPECT_EQ(train({"--force", "--set", "train.epochs=1"})["epochs"], 1);
  EXPECT_EQ(metrics().size(), 21u);
}

// A mistake in the new job must not cost the old run.
TEST_F(Train, ForceKeepsTheOldRunWhenTheNewOneCannotStart) {
  write_job(small_job());
  train();
  const std::vector<Json> before = metrics();
  EXPECT_EQ(trifold({"train", "job.json", "--force", "--set", "train.memory_limit=10KB"}).exit_code, 2);
  EXPECT_EQ(trifold({"train", "job.json", "--force", "--set", "data.train_samples=7"}).exit_code, 2);
  EXPECT_EQ(metrics(), before);
  EXPECT_EQ(checkpoints().size(), 2u);
}

TEST_F(Train, ResumeNeedsARun) {
  write_job(small_job());
  const ProgramResult result = trifold({"train", "job.json", "--resume"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(says(result.err, "there is no run 'job' in 'runs' to resume"));
}

// --- what ends a run

TEST_F(Train, StopsAtTheTargetAccuracy) {
  Json job = small_job();
  job["train"]["epochs"] = 50;
  job["train"]["stop"] = {{"target_accuracy", 0.5}};
  write_job(job);
  const Json done = train();
  EXPECT_EQ(done["stopped_by"], "target_accuracy");
  EXPECT_GE(done["test_accuracy"], 0.5);
  EXPECT_LT(done["epochs"], 50);
}

TEST_F(Train, StopsWhenTheTimeIsOver) {
  Json job = small_job();
  job["train"]["epochs"] = 1'000'000;
  job["train"]["eval_every"] = 1'000'000;
  job["train"]["stop"] = {{"minutes", 0.005}};
  write_job(job);
  const Json done = train();
  EXPECT_EQ(done["stopped_by"], "minutes");
  EXPECT_TRUE(done["test_accuracy"].is_number());  // of the model that was saved
  EXPECT_EQ(metrics().back()["phase"], "test");
  EXPECT_EQ(metrics().back()["step"], done["steps"]);
}

TEST_F(Train, StopsWhenTheLossStandsStill) {
  Json job = small_job();
  job["train"]["epochs"] = 50;
  job["train"]["optimizer"]["lr"] = 0;
  job["train"]["stop"] = {{"loss_delta", 0.5}, {"patience", 1}};
  write_job(job);
  const Json done = train();
  EXPECT_EQ(done["stopped_by"], "loss_delta");
  EXPECT_EQ(done["epochs"], 3);  // two changes, of which one is borne
}

TEST_F(Train, StopsWhenPatienceEnds) {
  Json job = small_job();
  job["train"]["epochs"] = 50;
  job["train"]["optimizer"]["lr"] = 0;  // never better
  job["train"]["stop"] = {{"patience", 2}};
  write_job(job);
  const Json done = train();
  EXPECT_EQ(done["stopped_by"], "patience");
  EXPECT_EQ(done["epochs"], 3);
}

TEST_F(Train, EndsWhenTheLossIsNoNumber) {
  Json job = small_job();
  job["train"]["optimizer"] = {{"type", "sgd"}, {"lr", 1e30}};
  write_job(job);
  const ProgramResult result = trifold({"train", "job.json", "--quiet"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err.find("trifold: the loss became "), 0u) << result.err;
  EXPECT_TRUE(says(result.err, "lower train.optimizer.lr"));
  EXPECT_EQ(lines_of(result.err), 1u);
}

// --- optimisers, schedules, accumulation

class TrainWith : public JobFixture, public ::testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(TrainWith, Learns) {
  Json job = small_job();
  job["train"]["epochs"] = 4;
  job.merge_patch(Json::parse(GetParam().second));
  write_job(job);
  train();
  const std::vector<Json> lines = metrics();
  double first = 0;
  double last = 0;
  for (int i = 0; i < 10; ++i) {
    first += lines[static_cast<std::size_t>(i)]["loss"].get<double>();
    last += lines[lines.size() - 2 - static_cast<std::size_t>(i)]["loss"].get<double>();
  }
  EXPECT_LT(last, 0.95 * first);
}

using Named = std::pair<const char*, const char*>;
INSTANTIATE_TEST_SUITE_P(
    All, TrainWith,
    ::testing::Values(
        Named{"Sgd", R"({"train": {"optimizer": {"type": "sgd", "lr": 0.05}}})"},
        Named{"Nesterov", R"({"train": {"optimizer": {"type": "sgd", "lr": 0.03, "momentum": 0.9, "nesterov": true,
                                                      "weight_decay": 1e-4}}})"},
        Named{"AdamW", R"({"train": {"optimizer": {"type": "adamw", "lr": 0.005, "weight_decay": 0.01}}})"},
        Named{"Adagrad", R"({"train": {"optimizer": {"type": "adagrad", "lr": 0.02, "initial_accumulator": 0.01}}})"},
        Named{"Lars", R"({"train": {"optimizer": {"type": "lars", "lr": 0.5, "momentum": 0.9, "trust": 0.01}}})"},
        Named{"Clip", R"({"train": {"clip_norm": 1, "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.5}}})"},
        Named{"Accumulate", R"({"train": {"accumulate": 4}})"},
        Named{"Step", R"({"train": {"schedule": {"type": "step", "every": 2, "gamma": 0.5}}})"},
        Named{"Cosine", R"({"train": {"schedule": {"type": "cosine", "warmup_epochs": 1}}})"},
        Named{"Polynomial", R"({"train": {"schedule": {"type": "polynomial", "power": 2, "warmup_steps": 5}}})"},
        Named{"BalancedSampler", R"({"data": {"sampler": "balanced"}})"},
        Named{"Strict", R"({"train": {"math": "strict"}})"},
        Named{"TwoThreads", R"({"train": {"threads": 2}, "data": {"threads": 2}})"}),
    [](const auto& named) { return named.param.first; });

TEST_F(Train, TheRateFollowsTheSchedule) {
  Json job = small_job();
  job["train"]["schedule"] = {{"type", "step"}, {"every", 1}, {"gamma", 0.1}};
  write_job(job);
  train();
  EXPECT_DOUBLE_EQ(metrics()[0]["learning_rate"], 0.005);
  EXPECT_DOUBLE_EQ(metrics()[40]["learning_rate"], 0.0005);
}

// Without batch norm and dropout, four micro-batches of 8 are one batch of 32 up to rounding.
TEST_F(Train, AccumulationChangesNothing) {
  write_job(small_job());
  train({"--set", "train.epochs=1"});
  train({"--set", "train.epochs=1", "--set", "train.accumulate=4", "--name", "cut"});
  const std::vector<Json> whole = metrics();
  const std::vector<Json> cut = metrics("cut");
  ASSERT_EQ(whole.size(), cut.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_NEAR(whole[i]["loss"].get<double>(), cut[i]["loss"].get<double>(), 2e-3) << "line " << i;
}

// --- other data

// y0 = a + 2b, y1 = a - b.
std::string regression_rows(int rows, unsigned state) {
  std::ostringstream text;
  text << "a,b,y0,y1\n";
  const auto uniform = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>(state >> 8) / (1 << 24) * 2 - 1;
  };
  for (int row = 0; row < rows; ++row) {
    const double a = uniform();
    const double b = uniform();
    text << a << ',' << b << ',' << a + 2 * b << ',' << a - b << '\n';
  }
  return text.str();
}

Json csv_job(const Json& data) {
  Json job = Json::parse(R"({
    "model": {"input": [2, 1, 1], "classes": 2, "layers": [
      {"type": "flatten"}, {"id": "fc", "type": "linear", "out": 2}]},
    "train": {"epochs": 10, "batch": 20, "threads": 1, "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9}}
  })");
  job["data"] = {{"type", "csv"}, {"path", "."}};
  job["data"].update(data);
  return job;
}

TEST_F(Train, FitsNumbersOfATable) {
  testing::write_file(directory() / "train.csv", regression_rows(400, 1));
  testing::write_file(directory() / "test.csv", regression_rows(50, 2));
  Json job = csv_job({{"targets", 2}});
  job["model"]["layers"].push_back({{"type", "mse"}});
  write_job(job);
  const ProgramResult result = trifold({"train", "job.json", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json done = last_json(result.out);
  EXPECT_LT(done["test_loss"], 1e-3);
  // Nothing is classified, so nothing speaks of accuracy.
  EXPECT_TRUE(done["test_accuracy"].is_null());
  EXPECT_FALSE(says(result.err, "accuracy"));
  EXPECT_FALSE(metrics()[0].contains("accuracy"));

  const ProgramResult scored = trifold({"eval", "job.json"});
  EXPECT_EQ(scored.exit_code, 0) << scored.err;
  EXPECT_FALSE(says(scored.out, "accuracy"));
}

TEST_F(Train, BalancedClassWeightsGiveARareClassItsShare) {
  // Class 1, one row in ten, is a > 0.6 or so: without weights a linear model answers 0 everywhere it is not sure.
  std::ostringstream text;
  for (int row = 0; row < 400; ++row) {
    const bool rare = row % 10 == 0;
    text << (rare ? 0.4 : 0.0) + (row * 37 % 101) / 200.0 << ',' << (row * 53 % 97) / 97.0 << ',' << rare << '\n';
  }
  testing::write_file(directory() / "train.csv", text.str());
  testing::write_file(directory() / "test.csv", text.str());
  write_job(csv_job(Json::object()));
  train({"--set", "train.epochs=2"});
  train({"--set", "train.epochs=2", "--set", "data.class_weights=balanced", "--name", "balanced"});
  const double plain = metrics()[0]["loss"];
  const double balanced = metrics("balanced")[0]["loss"];
  EXPECT_NE(plain, balanced);
  EXPECT_NEAR(balanced, plain, plain);  // weights have mean 1 over the samples
  train({"--set", "train.epochs=2", "--set", "data.class_weights=[1,1]", "--name", "even"});
  EXPECT_DOUBLE_EQ(metrics("even")[0]["loss"], plain);
}

TEST_F(Train, ReadsPicturesInFolders) {
  for (const char* split : {"train", "test"}) {
    for (int index = 0; index < 20; ++index) {
      const bool red = index % 2 == 0;
      const auto pixels = testing::solid_rgb(10 * 12, red ? 200 + index : index, 60, red ? index : 200 + index);
      const auto png = testing::encode_png(10, 12, PNG_FORMAT_RGB, pixels.data());
      const fs::path folder = directory() / "pictures" / split / (red ? "red" : "blue");
      fs::create_directories(folder);
      testing::write_file(folder / (std::to_string(index) + ".png"),
                          std::string(reinterpret_cast<const char*>(png.data()), png.size()));
    }
  }
  Json job = csv_job(Json::object());
  job["model"]["input"] = {3, 8, 8};
  job["data"] = {{"type", "image_folder"}, {"path", "pictures"}, {"augment", {{{"type", "flip"}}}}};
  write_job(job);
  EXPECT_EQ(train()["test_accuracy"], 1.0);
}

}  // namespace
}  // namespace trifold::test
