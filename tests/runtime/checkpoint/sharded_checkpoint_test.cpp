// Checkpoints of several files and an index: they come back whole, damage anywhere is found, a save that was killed
// leaves the one before, and indices of other programs are read.
#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/safetensors_index.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

constexpr std::int64_t kShardBytes = 40;  // one of these tensors of 24 bytes each

class ShardedCheckpoint : public ::testing::Test {
 protected:
  fs::path save(std::int64_t step, std::int64_t shard_bytes = kShardBytes) {
    TrainingState state;
    state.step = step;
    return save_checkpoint(directory_.path(), state, tensors(), shard_bytes);
  }
  std::vector<NamedTensor> tensors() const {
    std::vector<NamedTensor> found;
    for (const char* name : {"conv1.weight", "conv2.weight", "optimizer.conv1.weight.momentum"})
      found.push_back({.name = name, .shape = {2, 3}, .dtype = DType::f32, .data = std::as_bytes(std::span(values_))});
    return found;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  static std::string reason_of(const fs::path& file) {
    try {
      load_checkpoint(file);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory_;
  std::vector<float> values_{1, 2, 3, 4, 5, 6};
};

TEST_F(ShardedCheckpoint, ComesBackWhole) {
  const fs::path index = save(7);
  EXPECT_THAT(files(),
              ElementsAre("step-00000007-00001-of-00003.safetensors", "step-00000007-00002-of-00003.safetensors",
                          "step-00000007-00003-of-00003.safetensors", "step-00000007.safetensors.index.json"));
  EXPECT_EQ(index, directory_ / "step-00000007.safetensors.index.json");
  const nlohmann::json json = nlohmann::json::parse(read_file(index));
  EXPECT_EQ(json["metadata"]["total_size"], 72);
  EXPECT_EQ(json["weight_map"]["conv2.weight"], "step-00000007-00002-of-00003.safetensors");

  const LatestCheckpoint latest = latest_good(directory_.path());
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->file, index);
  EXPECT_EQ(latest.checkpoint->state.step, 7);
  ASSERT_EQ(latest.checkpoint->contents.tensors().size(), 3u);
  for (const NamedTensor& saved : tensors()) {
    const NamedTensor* const tensor = latest.checkpoint->contents.find(saved.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(std::memcmp(tensor->data.data(), values_.data(), sizeof(float) * values_.size()), 0);
  }
}

TEST_F(ShardedCheckpoint, TensorsShareAFileUpToTheLimitAndALargeOneHasItsOwn) {
  save(1, 48);
  EXPECT_EQ(files().size(), 3u);
  save(2, 1);
  EXPECT_EQ(files().size(), 7u);
  EXPECT_EQ(save(3, 72), directory_ / "step-00000003.safetensors");
}

TEST_F(ShardedCheckpoint, AnyFlippedBitIsFound) {
  const fs::path index = save(7);
  for (const std::string& name : files()) {
    const std::string good = read_file(directory_ / name);
    for (std::size_t byte = 0; byte < good.size(); ++byte) {  // all bits in turn; CheckpointTest does all of every byte
      std::string bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << (byte % 8)));
      write_file(directory_ / name, bad);
      ASSERT_NE(reason_of(index), "") << name << ", byte " << byte;
    }
    write_file(directory_ / name, good);
  }
  EXPECT_EQ(reason_of(index), "");
}

// Two saves of one step: each file is sound, together they are not.
TEST_F(ShardedCheckpoint, AShardOfAnotherSaveIsFound) {
  const fs::path index = save(7);
  const std::string stale = read_file(directory_ / "step-00000007-00002-of-00003.safetensors");
  values_[0] = 99;
  save(7);
  EXPECT_EQ(reason_of(index), "");
  write_file(directory_ / "step-00000007-00002-of-00003.safetensors", stale);
  EXPECT_NE(reason_of(index).find("does not belong to"), std::string::npos) << reason_of(index);
  fs::remove(directory_ / "step-00000007-00002-of-00003.safetensors");
  EXPECT_NE(reason_of(index).find("cannot read"), std::string::npos) << reason_of(index);
}

// What a kill leaves that comes after the shards and before the index.
TEST_F(ShardedCheckpoint, ASaveWithoutItsIndexDoesNotCountAndGoes) {
  save(7);
  const std::vector<std::string> before = files();
  fs::remove(save(8));
  EXPECT_EQ(latest_good(directory_.path()).checkpoint->state.step, 7);
  write_file(directory_ / "step-x-00001-of-00003.safetensors", "the user's");
  prune(directory_.path(), 2);
  EXPECT_EQ(files().size(), before.size() + 1);
  EXPECT_EQ(latest_good(directory_.path()).checkpoint->state.step, 7);
}

TEST_F(ShardedCheckpoint, PruneRemovesShardsWithTheirIndex) {
  for (const int step : {1, 2, 3}) save(step);
  save(4, 1000);
  prune(directory_.path(), 2);
  EXPECT_THAT(files(),
              ElementsAre("step-00000003-00001-of-00003.safetensors", "step-00000003-00002-of-00003.safetensors",
                          "step-00000003-00003-of-00003.safetensors", "step-00000003.safetensors.index.json",
                          "step-00000004.safetensors"));
}

TEST_F(ShardedCheckpoint, AStepIsThereInOneForm) {
  save(5);
  save(5, 1000);
  prune(directory_.path(), 2);
  EXPECT_THAT(files(), ElementsAre("step-00000005.safetensors"));
  save(5);
  EXPECT_EQ(files().size(), 4u);
  EXPECT_FALSE(fs::exists(directory_ / "step-00000005.safetensors"));
}

TEST_F(ShardedCheckpoint, ExportsAsOtherProgramsReadIt) {
  export_model(directory_ / "m.safetensors", tensors(), kShardBytes);
  EXPECT_THAT(files(),
              ElementsAre("m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "m.safetensors.index.json"));
  const SafetensorsFile exported(directory_ / "m.safetensors.index.json");
  ASSERT_EQ(exported.tensors().size(), 2u);
  EXPECT_EQ(exported.parts()[0].view.metadata, (SafetensorsMetadata{{"format", "pt"}}));
  EXPECT_NE(reason_of(directory_ / "m.safetensors.index.json").find("not a Trifold checkpoint"), std::string::npos);
}

TEST_F(ShardedCheckpoint, WrongIndicesAreRefused) {
  export_model(directory_ / "m.safetensors", tensors(), kShardBytes);
  const fs::path index = directory_ / "m.safetensors.index.json";
  const nlohmann::json good = nlohmann::json::parse(read_file(index));
  const auto expect_refused = [&](const std::string& text) {
    write_file(index, text);
    EXPECT_THROW(SafetensorsFile{index}, Error) << text;
  };
  for (const char* text : {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})"})
    expect_refused(text);
  for (const char* file : {"", ".", "..", "../m-00001-of-00002.safetensors", "/etc/passwd", "none.safetensors"}) {
    nlohmann::json bad = good;
    bad["weight_map"]["conv1.weight"] = file;
    expect_refused(bad.dump());
  }
  nlohmann::json bad = good;
  bad["weight_map"]["conv1.weight"] = bad["weight_map"]["conv2.weight"];
  expect_refused(bad.dump());
  bad = good;
  bad["weight_map"]["conv3.weight"] = bad["weight_map"]["conv2.weight"];
  expect_refused(bad.dump());
  bad = good;
  bad["metadata"]["total_size"] = 49;
  expect_refused(bad.dump());
  bad["metadata"] = nlohmann::json::array();
  expect_refused(bad.dump());
  write_file(index, good.dump(2));
  EXPECT_EQ(SafetensorsFile(index).tensors().size(), 2u);
}

}  // namespace
}  // namespace trifold
