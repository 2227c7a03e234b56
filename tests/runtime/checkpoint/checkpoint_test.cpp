// Checkpoints come back whole, damage anywhere is found, and the last good one is never lost.
#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/checkpoint/python.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

class CheckpointTest : public ::testing::Test {
 protected:
  fs::path save(std::int64_t step) {
    TrainingState state;
    state.step = step;
    return save_checkpoint(directory_.path(), state, tensors());
  }
  std::vector<NamedTensor> tensors() const {
    const auto data = std::as_bytes(std::span(values_));
    return {{.name = "conv1.weight", .shape = {2, 3}, .dtype = DType::f32, .data = data},
            {.name = "optimizer.conv1.weight.momentum", .shape = {2, 3}, .dtype = DType::f32, .data = data}};
  }
  static void flip_bit(const fs::path& file, std::size_t byte, int bit = 0) {
    std::string bytes = read_file(file);
    bytes.at(byte) = static_cast<char>(bytes[byte] ^ (1 << bit));
    write_file(file, bytes);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory directory_;
  std::vector<float> values_{1, 2, 3, 4, 5, 6};
};

TEST_F(CheckpointTest, ComesBackWhole) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const TrainingState state{.step = 1234,
                            .epoch = 2,
                            .position_in_epoch = 59'968,
                            .seed = std::numeric_limits<std::uint64_t>::max(),
                            .rng = {0, 17, 1ull << 63},
                            .best_metrics = {{"test_loss", kInfinity}, {"accuracy", 0.1 + 0.2}, {"low", -kInfinity}},
                            .loss_scale = 65536.0,
                            .steps_since_overflow = 7,
                            .counters = {{"stop.patience", 3}}};
  const fs::path file = save_checkpoint(directory_ / "checkpoints", state, tensors());
  EXPECT_EQ(file, directory_ / "checkpoints" / "step-00001234.safetensors");

  const Checkpoint loaded = load_checkpoint(file);
  EXPECT_EQ(loaded.state, state);
  EXPECT_EQ(loaded.file, file);
  ASSERT_EQ(loaded.contents.tensors().size(), 2u);
  for (const NamedTensor& saved : tensors()) {
    const NamedTensor* const tensor = loaded.contents.find(saved.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->shape, saved.shape);
    EXPECT_EQ(std::memcmp(tensor->data.data(), values_.data(), sizeof(float) * values_.size()), 0);
  }
}

TEST_F(CheckpointTest, NanInTheStateSurvives) {
  TrainingState state;
  state.best_metrics["loss"] = std::numeric_limits<double>::quiet_NaN();
  const Checkpoint loaded = load_checkpoint(save_checkpoint(directory_.path(), state, {}));
  EXPECT_TRUE(std::isnan(loaded.state.best_metrics.at("loss")));
}

TEST(TrainingStateTest, NothingIsRoundedWrappedOrGuessed) {
  const std::string good = to_json_text(TrainingState{.step = 5});
  EXPECT_EQ(training_state_from_json(good, "f").step, 5);
  const auto refuses = [&](const std::string& part, const std::string& with) {
    std::string text = good;
    text.replace(text.find(part), part.size(), with);
    EXPECT_THROW(training_state_from_json(text, "f"), Error) << text;
  };
  for (const char* step : {"1e300", "5.5", "true", "18446744073709551615", "\"5\""})
    refuses("\"step\":5", std::string("\"step\":") + step);
  refuses("\"seed\":0", "\"seed\":-1");
  refuses("\"rng\":[]", "\"rng\":[-1]");
  refuses("\"rng\":[]", "\"rng\":{}");
  refuses("\"best_metrics\":{}", "\"best_metrics\":[1]");
  refuses("\"best_metrics\":{}", "\"best_metrics\":7");
  refuses("\"loss_scale\":1.0", "\"loss_scale\":true");
}

TEST_F(CheckpointTest, SavingAStepAgainReplacesIt) {
  save(5);
  values_[0] = 99;
  const Checkpoint loaded = load_checkpoint(save(5));
  EXPECT_EQ(std::memcmp(loaded.contents.find("conv1.weight")->data.data(), values_.data(), 4), 0);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(CheckpointTest, AnyFlippedBitIsFound) {
  const fs::path file = save(7);
  const std::string good = read_file(file);
  std::size_t found = 0;
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << bit));
      write_file(file, bad);
      try {
        load_checkpoint(file);
        ADD_FAILURE() << "bit " << bit << " of byte " << byte << " flipped unnoticed";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(file.string()));
        ++found;
      }
    }
  }
  EXPECT_EQ(found, good.size() * 8);
}

TEST_F(CheckpointTest, AnyTruncationOrAppendedByteIsFound) {
  const fs::path file = save(7);
  const std::string good = read_file(file);
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_file(file, good.substr(0, size));
    EXPECT_THROW(load_checkpoint(file), Error) << size;
  }
  write_file(file, good + '\0');
  EXPECT_THROW(load_checkpoint(file), Error);
  write_file(file, good);
  EXPECT_NO_THROW(load_checkpoint(file));
}

TEST_F(CheckpointTest, AnotherSafetensorsFileIsNoCheckpoint) {
  write_safetensors(directory_ / "model.safetensors", tensors(), {{"format", "pt"}});
  try {
    load_checkpoint(directory_ / "model.safetensors");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("is not a Trifold checkpoint"));
  }
}

TEST_F(CheckpointTest, LatestGoodIsTheNewest) {
  save(20);
  save(100'000'000);
  save(99'999'999);
  write_file(directory_ / "step-best.safetensors", "not ours");
  write_file(directory_ / "step-00000999.safetensors.bak", "not ours");
  const LatestCheckpoint latest = latest_good(directory_.path());
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->state.step, 100'000'000) << "by number, not by letters";
  EXPECT_TRUE(latest.skipped.empty());
}

TEST_F(CheckpointTest, LatestGoodSkipsDamagedOnesAndSaysSo) {
  save(10);
  const fs::path flipped = save(20);
  const fs::path empty = save(30);
  flip_bit(flipped, fs::file_size(flipped) - 1);
  write_file(empty, "");
  const LatestCheckpoint latest = latest_good(directory_.path());
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->state.step, 10);
  ASSERT_EQ(latest.skipped.size(), 2u);
  EXPECT_EQ(latest.skipped[0].file, empty);
  EXPECT_THAT(latest.skipped[0].reason, ::testing::HasSubstr("too few"));
  EXPECT_EQ(latest.skipped[1].file, flipped);
  EXPECT_THAT(latest.skipped[1].reason, ::testing::HasSubstr("data do not match"));
}

TEST_F(CheckpointTest, LatestGoodSkipsARenamedOne) {
  save(10);
  fs::rename(save(20), directory_ / "step-00000030.safetensors");
  const LatestCheckpoint latest = latest_good(directory_.path());
  EXPECT_EQ(latest.checkpoint->state.step, 10);
  EXPECT_EQ(latest.skipped.size(), 1u);
}

TEST_F(CheckpointTest, LatestGoodOfNothing) {
  EXPECT_FALSE(latest_good(directory_.path()).checkpoint);
  EXPECT_FALSE(latest_good(directory_ / "missing").checkpoint);
  write_file(directory_ / "file", "");
  EXPECT_THROW(latest_good(directory_ / "file"), Error);
}

TEST_F(CheckpointTest, PruneKeepsTheNewest) {
  for (const int step : {10, 20, 30, 40}) save(step);
  write_file(directory_ / "notes.txt", "the user's");
  write_file(directory_ / ".step-00000050.safetensors.77-1.tmp", "left by a kill");
  prune(directory_.path(), 2);
  EXPECT_THAT(files(), ::testing::ElementsAre("notes.txt", "step-00000030.safetensors", "step-00000040.safetensors"));
  prune(directory_.path(), 5);
  EXPECT_EQ(files().size(), 3u);
  prune(directory_ / "missing", 1);
}

TEST_F(CheckpointTest, PruneNeverDeletesTheLastGoodOne) {
  for (const int step : {10, 20, 30, 40}) save(step);
  flip_bit(directory_ / "step-00000030.safetensors", 300);
  flip_bit(directory_ / "step-00000040.safetensors", 300);
  prune(directory_.path(), 1);
  EXPECT_THAT(files(), ::testing::ElementsAre("step-00000020.safetensors", "step-00000030.safetensors",
                                              "step-00000040.safetensors"));
  EXPECT_EQ(latest_good(directory_.path()).checkpoint->state.step, 20);
}

TEST_F(CheckpointTest, AMappedCheckpointOutlivesItsFile) {
  const Checkpoint loaded = load_checkpoint(save(1));
  save(2);
  prune(directory_.path(), 1);
  EXPECT_EQ(std::memcmp(loaded.contents.find("conv1.weight")->data.data(), values_.data(), 24), 0);
}

TEST_F(CheckpointTest, ExportHoldsOnlyTheModel) {
  const Checkpoint loaded = load_checkpoint(save(1));
  export_model(directory_ / "model.safetensors", loaded.contents.tensors());
  const SafetensorsFile exported(directory_ / "model.safetensors");
  ASSERT_EQ(exported.tensors().size(), 1u);
  EXPECT_EQ(exported.tensors()[0].name, "conv1.weight");
  EXPECT_EQ(exported.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
}

TEST_F(CheckpointTest, PythonOpensExportAndCheckpoint) {
  if (!testing::python_imports("safetensors.numpy")) GTEST_SKIP() << "Python's safetensors and numpy are not installed";
  export_model(directory_ / "model.safetensors", tensors());
  const fs::path checkpoint = save(3);
  const auto result = testing::run_python("model = '" + (directory_ / "model.safetensors").string() +
                                          "'\ncheckpoint = '" + checkpoint.string() + R"('
import json
from safetensors import safe_open
from safetensors.numpy import load_file
tensors = load_file(model)
assert list(tensors) == ['conv1.weight'], tensors
assert tensors['conv1.weight'].tolist() == [[1, 2, 3], [4, 5, 6]]
assert len(load_file(checkpoint)) == 2
with safe_open(checkpoint, framework='numpy') as f:
    assert json.loads(f.metadata()['trifold.state'])['step'] == 3
)");
  EXPECT_EQ(result.exit_status, 0) << result.output;
}

}  // namespace
}  // namespace trifold
