#include "support/cluster_fixture.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace trifold::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

Json ClusterFixture::cluster_job() {
  Json job = small_job();
  job["model"]["layers"] = Json::parse(R"([
    {"id": "conv1", "type": "conv2d", "out": 8, "kernel": 3, "pad": 1}, {"id": "bn1", "type": "batch_norm"},
    {"type": "relu"}, {"type": "max_pool", "kernel": 2}, {"type": "flatten"},
    {"id": "drop", "type": "dropout", "p": 0.2}, {"id": "fc", "type": "linear", "out": 3}])");
  job["data"]["train_samples"] = 20 * 32;
  job["train"]["batch"] = 32;
  job["train"]["epochs"] = 2;
  job["train"]["bn_group"] = 8;
  return job;
}

void ClusterFixture::wait_for_steps(RunningProgram& program, const std::string& run) const {
  const fs::path file = directory() / "runs" / run / "metrics.jsonl";
  while (program.running() && (!fs::exists(file) || fs::file_size(file) < 500)) std::this_thread::sleep_for(1ms);
}

std::vector<double> ClusterFixture::losses(const std::string& run) const {
  std::vector<double> found;
  for (const Json& line : metrics(run))
    if (line["phase"] == "train") found.push_back(line["loss"]);
  return found;
}

void ClusterFixture::expect_same_losses(const std::string& a, const std::string& b, double tolerance,
                                        int unreported) const {
  const std::vector<double> first = losses(a);
  const std::vector<double> second = losses(b);
  ASSERT_EQ(first.size(), second.size());
  ASSERT_GT(first.size(), 10u);
  double largest = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    largest = std::max(largest, std::abs(first[i] - second[i]) / first[i]);
    if (std::abs(first[i] - second[i]) > tolerance * first[i] && unreported-- > 0) continue;
    ASSERT_NEAR(first[i], second[i], tolerance * first[i]) << "step " << i + 1;
  }
  ::testing::Test::RecordProperty("largest_difference", fmt::format("{:.1e}", largest));  // for --gtest_output=json
}

std::unique_ptr<RunningProgram> ClusterFixture::start(std::vector<std::string> arguments,
                                                      std::vector<std::string> under) const {
  const std::string label = arguments.at(0) + std::to_string(++started_);
  return std::make_unique<RunningProgram>(RunningProgram::Args{
      .arguments = std::move(arguments), .under = std::move(under), .directory = directory(), .label = label});
}

std::vector<std::unique_ptr<RunningProgram>> ClusterFixture::start(int count,
                                                                   const std::vector<std::string>& arguments) const {
  std::vector<std::unique_ptr<RunningProgram>> programs;
  for (int i = 0; i < count; ++i) programs.push_back(start(arguments));
  return programs;
}

int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (descriptor < 0 || ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no free port");
  ::close(descriptor);
  return ntohs(address.sin_port);
}

void expect_good_end(const std::vector<std::unique_ptr<RunningProgram>>& programs) {
  for (const auto& program : programs) {
    const ProgramResult result = program->wait(60s);
    EXPECT_EQ(result.exit_code, 0) << "signal " << result.signal << "\n" << result.err;
  }
}

}  // namespace trifold::test
