// A checkpoint belongs to the model, not to the device: what the CPU began goes on on the GPU, and the other way round.
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class CudaResume : public JobFixture {
 protected:
  CudaResume() {
    Json job = small_job();
    Json& layers = job["model"]["layers"];
    // Before batch norm a bias has no gradient but rounding, which Adam would make into steps of full size.
    layers[0]["bias"] = false;
    layers.insert(layers.begin() + 1, Json{{"id", "bn1"}, {"type", "batch_norm"}});
    layers.insert(layers.end() - 1, Json{{"id", "drop"}, {"type", "dropout"}, {"p", 0.2}});
    job["data"]["train_samples"] = 4 * 16;
    job["data"]["test_samples"] = 16;
    job["data"]["augment"] = {{{"type", "random_crop"}, {"pad", 1}}, {{"type", "cutout"}, {"size", 3}}};
    job["train"]["batch"] = 16;
    write_job(job);
  }

  // Two epochs on one device, then two more on each: the same losses.
  void expect_to_go_on(const std::string& from, const std::string& to) const {
    train({"--name", "stayed", "--set", "plan.device=" + from});
    fs::copy(directory() / "runs/stayed", directory() / "runs/moved", fs::copy_options::recursive);
    const auto resume = [&](const std::string& run, const std::string& device) {
      train({"--name", run, "--resume", "--set", "train.epochs=4", "--set", "plan.device=" + device});
    };
    resume("stayed", from);
    resume("moved", to);

    const std::vector<Json> expected = metrics("stayed");
    const std::vector<Json> moved = metrics("moved");
    ASSERT_EQ(expected.size(), 4u * (4 + 1));  // steps and evaluations
    ASSERT_EQ(moved.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto loss = expected[i].at("loss").get<double>();
      EXPECT_NEAR(moved[i].at("loss").get<double>(), loss, 1e-4 * loss) << expected[i];
    }
  }
};

TEST_F(CudaResume, ACheckpointOfTheCpuGoesOnOnTheGpu) {
  expect_to_go_on("cpu", "cuda");
}

TEST_F(CudaResume, ACheckpointOfTheGpuGoesOnOnTheCpu) {
  expect_to_go_on("cuda", "cpu");
}

}  // namespace
}  // namespace trifold::test
