#include "support/job_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <unistd.h>

namespace trifold::test {

namespace fs = std::filesystem;

Json small_job() {
  return Json::parse(R"({
    "model": {
      "input": [1, 16, 16],
      "classes": 3,
      "layers": [
        {"id": "conv1", "type": "conv2d", "out": 8, "kernel": 3, "pad": 1},
        {"id": "relu1", "type": "relu"},
        {"id": "pool1", "type": "max_pool", "kernel": 2},
        {"id": "conv2", "type": "conv2d", "out": 16, "kernel": 3, "pad": 1},
        {"id": "relu2", "type": "relu"},
        {"id": "pool2", "type": "max_pool", "kernel": 2},
        {"id": "flat", "type": "flatten"},
        {"id": "fc", "type": "linear", "out": 3}
      ]
    },
    "data": {"type": "synthetic", "train_samples": 640, "test_samples": 100,
             "normalize": {"mean": [0.5], "std": [0.25]}},
    "train": {"epochs": 2, "batch": 32, "threads": 1, "optimizer": {"type": "adam", "lr": 0.005}}
  })");
}

JobFixture::JobFixture() {
  // One for all tests of this user, so that they do not all measure the same kernels.
  const fs::path cache = fs::temp_directory_path() / ("trifold-test-cache-" + std::to_string(::getuid()));
  fs::create_directories(cache);
  ::setenv("TRIFOLD_CACHE", cache.c_str(), 1);
}

void JobFixture::write_job(const Json& job, const std::string& name) const {
  testing::write_file(directory_ / name, job.dump(2));
}

ProgramResult JobFixture::trifold(std::vector<std::string> arguments) const {
  return RunningProgram({.arguments = std::move(arguments), .directory = directory()}).wait();
}

Json JobFixture::train(std::vector<std::string> arguments) const {
  std::vector<std::string> all = {"train", "job.json", "--json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const ProgramResult result = trifold(all);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return last_json(result.out);
}

std::vector<Json> JobFixture::metrics(const std::string& run) const {
  return json_lines(testing::read_file(directory() / "runs" / run / "metrics.jsonl"));
}

std::vector<Json> JobFixture::metrics_but_times(const std::string& run) const {
  std::vector<Json> lines = metrics(run);
  for (Json& line : lines)
    for (const char* time : {"images_per_s", "time_s"}) line.erase(time);
  return lines;
}

std::vector<fs::path> JobFixture::checkpoints(const std::string& run) const {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory() / "runs" / run / "checkpoints"))
    found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, false);
    EXPECT_TRUE(json.is_object()) << "not a JSON object: " << line;
    lines.push_back(json);
  }
  return lines;
}

Json last_json(const std::string& text) {
  const std::vector<Json> lines = json_lines(text);
  return lines.empty() ? Json::object() : lines.back();
}

::testing::AssertionResult says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  return (found ? ::testing::AssertionSuccess() : ::testing::AssertionFailure()) << '"' << part << "\" in: " << text;
}

}  // namespace trifold::test
