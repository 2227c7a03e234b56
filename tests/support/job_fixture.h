// A test that runs whole jobs: a folder of its own, a tuning cache that is not the user's, a small job to change.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/temporary_directory.h"
#include "support/program.h"

namespace trifold::test {

using Json = nlohmann::ordered_json;

// A small CNN on drawn 16x16 images of 3 classes. One thread: steps of this size gain nothing from a second one, and
// do not wait for it on a busy machine.
Json small_job();

class JobFixture : public ::testing::Test {
 protected:
  JobFixture();

  const std::filesystem::path& directory() const { return directory_.path(); }
  void write_job(const Json& job, const std::string& name = "job.json") const;

  ProgramResult trifold(std::vector<std::string> arguments) const;
  // trifold train job.json --json with these; what it printed last. The test fails if it did not end with 0.
  Json train(std::vector<std::string> arguments = {}) const;

  // Of runs/<run>: the lines of metrics.jsonl, the checkpoints from the oldest to the newest.
  std::vector<Json> metrics(const std::string& run = "job") const;
  // Without what the clock says: the same of two runs that train alike.
  std::vector<Json> metrics_but_times(const std::string& run = "job") const;
  std::vector<std::filesystem::path> checkpoints(const std::string& run = "job") const;

 private:
  testing::TemporaryDirectory directory_;
};

std::vector<Json> json_lines(const std::string& text);
Json last_json(const std::string& text);  // an empty object of an empty text

// Whether `part` is in `text`, with both in the message if not.
::testing::AssertionResult says(const std::string& text, const std::string& part);

}  // namespace trifold::test
