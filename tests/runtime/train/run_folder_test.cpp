// A run is never overwritten by accident, and never more than a run.
#include "runtime/train/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using testing::write_file;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolder open(const std::string& name, RunMode mode) const {
    return RunFolder({.root = directory_ / "runs", .name = name, .mode = mode});
  }
  std::string error_of(const std::string& name, RunMode mode) const {
    try {
      open(name, mode);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::input);
      return error.what();
    }
    return "no error";
  }

  TemporaryDirectory directory_;
};

TEST_F(RunFolderTest, FreshRunHasItsFolders) {
  const RunFolder run = open("mnist", RunMode::fresh);
  EXPECT_EQ(run.path(), directory_ / "runs" / "mnist");
  EXPECT_EQ(run.job_json(), run.path() / "job.json");
  EXPECT_EQ(run.metrics_jsonl(), run.path() / "metrics.jsonl");
  EXPECT_TRUE(fs::is_directory(run.checkpoints()));
  EXPECT_TRUE(fs::is_directory(run.tensorboard()));
}

TEST_F(RunFolderTest, FreshRefusesAnyTraceOfARun) {
  for (const char* const trace : {"job.json", "metrics.jsonl", "checkpoints/step-00000001.safetensors",
                                  "tensorboard/events.out.tfevents.0000000001.host"}) {
    const RunFolder run = open("mnist", RunMode::overwrite);
    write_file(run.path() / trace, "x");
    const std::string error = error_of("mnist", RunMode::fresh);
    EXPECT_THAT(error, ::testing::HasSubstr("already holds a run")) << trace;
    EXPECT_THAT(error, ::testing::HasSubstr("--resume")) << trace;
    EXPECT_EQ(testing::read_file(run.path() / trace), "x");
  }
}

TEST_F(RunFolderTest, FoldersWithoutARunDoNotStandInTheWay) {
  open("mnist", RunMode::fresh);
  EXPECT_EQ(error_of("mnist", RunMode::fresh), "no error");
}

TEST_F(RunFolderTest, ResumeKeepsEverything) {
  write_file(open("mnist", RunMode::fresh).job_json(), "{}");
  const RunFolder run = open("mnist", RunMode::resume);
  EXPECT_EQ(testing::read_file(run.job_json()), "{}");
}

TEST_F(RunFolderTest, ResumeOfNothingNamesTheRunsThereAre) {
  EXPECT_EQ(error_of("mnist", RunMode::resume),
            "there is no run 'mnist' in '" + (directory_ / "runs").string() + "' to resume");
  open("mnist1", RunMode::fresh);
  open("cifar", RunMode::fresh);
  EXPECT_THAT(error_of("mnist", RunMode::resume), ::testing::HasSubstr("to resume; runs there: cifar, mnist1"));
  EXPECT_FALSE(fs::exists(directory_ / "runs" / "mnist"));
}

TEST_F(RunFolderTest, OverwriteDeletesTheRunAndNothingElse) {
  const RunFolder old = open("mnist", RunMode::fresh);
  write_file(old.job_json(), "{}");
  write_file(old.metrics_jsonl(), "{}");
  write_file(old.checkpoints() / "step-00000001.safetensors", "x");
  write_file(old.path() / "notes.txt", "the user's");
  const RunFolder run = open("mnist", RunMode::overwrite);
  EXPECT_FALSE(fs::exists(run.job_json()));
  EXPECT_FALSE(fs::exists(run.metrics_jsonl()));
  EXPECT_TRUE(fs::is_empty(run.checkpoints()));
  EXPECT_TRUE(fs::exists(run.path() / "notes.txt"));
}

TEST_F(RunFolderTest, NamesStayInsideTheRoot) {
  for (const char* const name : {"", ".", "..", "../x", "a/b", "/tmp", ".hidden"}) {
    EXPECT_THAT(error_of(name, RunMode::overwrite), ::testing::HasSubstr("cannot name a run")) << name;
  }
}

TEST_F(RunFolderTest, AFileInTheWayIsSaid) {
  write_file(directory_ / "runs", "a file");
  EXPECT_THROW(open("mnist", RunMode::fresh), Error);
}

}  // namespace
}  // namespace trifold
