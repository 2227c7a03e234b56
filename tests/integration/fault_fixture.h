// A job whose processes are killed at exact places (kill_at.cpp), and what must be left of it.
#pragma once

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "runtime/checkpoint/checkpoint.h"
#include "support/job_fixture.h"
#include "support/paths.h"

namespace trifold::test {

// Where and when, in the words of kill_at.cpp.
struct Kill {
  const char* at = "work";
  int in = 0;    // the rank that gets there
  int rank = 0;  // the rank that dies
  int times = 1;
  const char* after = "runs/job/checkpoints/step-00000004.safetensors";  // once this is there
};

// Parameters of every stage are enough for a sum in two exchanges, and a convolution of stride 2 is oneDNN's.
inline Json faulty_job() {
  Json job = small_job();
  job["model"]["layers"] = Json::parse(R"([
    {"id": "conv1", "type": "conv2d", "out": 32, "kernel": 3, "pad": 1}, {"id": "bn1", "type": "batch_norm"},
    {"type": "relu"},
    {"id": "conv2", "type": "conv2d", "out": 32, "kernel": 3, "pad": 1, "stride": 2}, {"type": "relu"},
    {"id": "conv3", "type": "conv2d", "out": 64, "kernel": 3, "pad": 1, "stride": 2}, {"type": "relu"},
    {"type": "flatten"}, {"id": "drop", "type": "dropout", "p": 0.2}, {"id": "fc", "type": "linear", "out": 3}])");
  job["data"]["train_samples"] = 24 * 32;
  job["train"]["epochs"] = 1;
  job["train"]["bn_group"] = 8;
  job["train"]["checkpoint"] = {{"every_steps", 4}};
  return job;
}

class FaultFixture : public JobFixture {
 protected:
  std::vector<std::string> variables(const Kill& kill) const {
    return {fmt::format("LD_PRELOAD={}", kill_at_path()), fmt::format("KILL_AT={}", kill.at),
            fmt::format("KILL_IN={}", kill.in),           fmt::format("KILL_RANK={}", kill.rank),
            fmt::format("KILL_TIMES={}", kill.times),     fmt::format("KILL_AFTER={}", kill.after)};
  }

  std::filesystem::path killed(int turn = 0) const { return directory() / fmt::format("killed.{}", turn); }

  void expect_same_model(const std::string& a, const std::string& b) const {
    const SafetensorsFile first(checkpoints(a).back());
    const SafetensorsFile second(checkpoints(b).back());
    ASSERT_EQ(first.tensors().size(), second.tensors().size());
    for (const NamedTensor& tensor : first.tensors()) {
      const NamedTensor* other = second.find(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(tensor.data, other->data)) << tensor.name;
    }
  }
};

}  // namespace trifold::test
