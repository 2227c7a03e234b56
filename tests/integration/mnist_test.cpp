// Real digits: 5,000 of MNIST, where the shared folder with them is there.
#include <chrono>

#include <fmt/format.h>

#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class Mnist : public JobFixture {};

TEST_F(Mnist, TutorialNetReaches97And5Percent) {
  const std::filesystem::path data = TRIFOLD_SOURCE_DIR "/../shared/data/mnist5k";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is not here";
  Json job;
  job["model"] = TRIFOLD_SOURCE_DIR "/models/nets/tutorial.json";
  job["data"] = {{"type", "idx"}, {"path", data}, {"normalize", {{"mean", {0.1307}}, {"std", {0.3081}}}}};
  job["train"] = {{"epochs", 30},
                  {"batch", 64},
                  {"optimizer", {{"type", "adam"}, {"lr", 0.002}}},
                  {"schedule", {{"type", "cosine"}, {"warmup_epochs", 1}}},
                  {"stop", {{"target_accuracy", 0.978}, {"minutes", 3}}}};
  write_job(job);
  const auto begin = std::chrono::steady_clock::now();
  const Json done = train();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double accuracy = done["test_accuracy"];
  fmt::print("{:.2f} % after {} epochs, {:.1f} s\n", 100 * accuracy, done["epochs"].get<int>(), seconds);
  EXPECT_GE(accuracy, 0.975);
  EXPECT_LT(seconds, 180);
}

}  // namespace
}  // namespace trifold::test
