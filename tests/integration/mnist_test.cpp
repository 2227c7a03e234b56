// Real digits: 5,000 of MNIST, where the shared folder with them is there.
#include <chrono>

#include <fmt/format.h>

#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class Mnist : public JobFixture {};

TEST_F(Mnist, LeNetReaches97And5PercentInThreeMinutes) {
  const std::filesystem::path data = TRIFOLD_SOURCE_DIR "/../shared/data/mnist5k";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is not here";
  Json job;
  job["model"] = TRIFOLD_SOURCE_DIR "/models/nets/lenet5.json";
  job["data"] = {{"type", "idx"},
                 {"path", data},
                 {"normalize", {{"mean", {0.1307}}, {"std", {0.3081}}}},
                 {"augment", {{{"type", "random_crop"}, {"pad", 2}}}}};
  job["train"] = {{"epochs", 50},
                  {"batch", 32},
                  {"threads", 1},
                  {"optimizer", {{"type", "adamw"}, {"lr", 0.003}, {"weight_decay", 0.05}}},
                  {"schedule", {{"type", "cosine"}, {"warmup_epochs", 1}}}};
  write_job(job);
  const auto begin = std::chrono::steady_clock::now();
  const Json done = train();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_TRUE(done["test_accuracy"].is_number());
  const double accuracy = done["test_accuracy"];
  fmt::print("{:.2f} % after {} epochs, {:.1f} s\n", 100 * accuracy, done["epochs"].get<int>(), seconds);
  EXPECT_GE(accuracy, 0.975);
  EXPECT_LT(seconds, 180);
}

}  // namespace
}  // namespace trifold::test
