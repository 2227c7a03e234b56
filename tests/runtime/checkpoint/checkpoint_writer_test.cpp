// Checkpoints that are written while the caller goes on: complete when waited for, and no failure stays unsaid.
#include "runtime/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

using Values = std::vector<float>;

void begin(CheckpointWriter& writer, std::int64_t step, const std::shared_ptr<Values>& values) {
  TrainingState state;
  state.step = step;
  writer.begin(state,
               {{.name = "weight",
                 .shape = {static_cast<std::int64_t>(values->size())},
                 .dtype = DType::f32,
                 .data = std::as_bytes(std::span<const float>(*values))}},
               values);
}

TEST(CheckpointWriterTest, WritesWhatItWasGivenAndKeepsTheNewest) {
  const TemporaryDirectory directory;
  CheckpointWriter writer({.directory = directory.path(), .keep = 2});
  for (int step = 1; step <= 5; ++step) begin(writer, step, std::make_shared<Values>(1000, static_cast<float>(step)));
  writer.finish();
  EXPECT_GT(writer.seconds(), 0);
  EXPECT_EQ(testing::count_entries(directory.path()), 2u);
  const LatestCheckpoint latest = latest_good(directory.path());
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->state.step, 5);
  const NamedTensor* weight = latest.checkpoint->contents.find("weight");
  EXPECT_EQ(reinterpret_cast<const float*>(weight->data.data())[999], 5.0f);
}

// 16 MB are summed twice, written and synced: whoever waited for that would always find the file. A busy machine may
// now and then stop this thread for longer than that takes, but not every time.
TEST(CheckpointWriterTest, TheCallerGoesOnWhileItWrites) {
  const auto values = std::make_shared<Values>(4'000'000, 1.0f);
  int went_on = 0;
  for (int round = 0; round < 5; ++round) {
    const TemporaryDirectory directory;
    const fs::path file = directory.path() / "step-00000001.safetensors";
    CheckpointWriter writer({.directory = directory.path(), .keep = 1});
    begin(writer, 1, values);
    if (!fs::exists(file)) ++went_on;
    writer.finish();
    EXPECT_TRUE(fs::exists(file));
    EXPECT_EQ(values.use_count(), 1);  // the writer has let go of the memory
  }
  EXPECT_GT(went_on, 0);
}

TEST(CheckpointWriterTest, EndsAWriteBeforeItGoes) {
  const TemporaryDirectory directory;
  {
    CheckpointWriter writer({.directory = directory.path(), .keep = 1});
    begin(writer, 3, std::make_shared<Values>(1'000'000, 1.0f));
  }
  EXPECT_EQ(latest_good(directory.path()).checkpoint->state.step, 3);
}

TEST(CheckpointWriterTest, AFailureIsThrownByTheNextCallAndNamesTheFile) {
  const TemporaryDirectory directory;
  // A folder of the checkpoint's name: the file cannot take its place.
  const fs::path in_the_way = directory.path() / "step-00000001.safetensors";
  fs::create_directory(in_the_way);
  testing::write_file(in_the_way / "x", "");
  const auto expect_thrown = [&](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(in_the_way.string()), std::string::npos) << error.what();
    }
  };
  const auto values = std::make_shared<Values>(10, 1.0f);
  CheckpointWriter writer({.directory = directory.path(), .keep = 1});
  begin(writer, 1, values);
  expect_thrown([&] { writer.finish(); });
  begin(writer, 1, values);
  expect_thrown([&] { begin(writer, 2, values); });
  begin(writer, 1, values);
  expect_thrown([&] {
    for (int i = 0; i < 5000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(1))) writer.check();
  });
  fs::remove_all(in_the_way);
  begin(writer, 1, values);
  EXPECT_NO_THROW(writer.finish());
  EXPECT_NO_THROW(writer.check());
}

}  // namespace
}  // namespace trifold
