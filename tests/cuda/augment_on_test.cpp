// Jobs whose images are augmented on the GPU, as is the default there, train as those that the host augments, to the
// bit.
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class AugmentOnGpu : public JobFixture {
 protected:
  AugmentOnGpu() {
    Json job = small_job();
    job["data"]["train_samples"] = 3 * 16 + 5;
    job["data"]["test_samples"] = 20;
    job["data"]["augment"] = {{{"type", "random_crop"}, {"pad", 2}}, {{"type", "flip"}}, {{"type", "cutout"}}};
    job["train"]["batch"] = 16;
    job["plan"] = {{"device", "cuda"}};
    write_job(job);
  }

  // The same losses, digit by digit, of training steps (replayed from the second on) and evaluations.
  void expect_bits_of_the_host(std::vector<std::string> arguments) const {
    const auto train_on = [&](const std::string& where) {
      std::vector<std::string> all = {"--name", where, "--set", "data.augment_on=" + where};
      all.insert(all.end(), arguments.begin(), arguments.end());
      train(all);
      return metrics_but_times(where);
    };
    const std::vector<Json> host = train_on("host");
    EXPECT_EQ(host.size(), 2u * (3 + 1));
    EXPECT_EQ(train_on("auto"), host);
  }
};

TEST_F(AugmentOnGpu, TrainsToTheBitsOfTheHost) {
  expect_bits_of_the_host({});
}

TEST_F(AugmentOnGpu, TrainsToTheBitsOfTheHostInMicroBatchesOf16BitNumbers) {
  expect_bits_of_the_host({"--set", "train.accumulate=2", "--set", "train.precision=fp16"});
}

TEST_F(AugmentOnGpu, IsTheDefaultAndCheckSaysSo) {
  const ProgramResult by_default = trifold({"check", "job.json"});
  EXPECT_TRUE(says(by_default.out, "images come as raw bytes and are augmented and normalised on cuda#0\n"));
  EXPECT_TRUE(says(trifold({"check", "job.json", "--program"}).out, "prepare_images crop pad 2 flip p 0.5 cutout 8"));
  const ProgramResult on_host = trifold({"check", "job.json", "--set", "data.augment_on=host"});
  EXPECT_EQ(on_host.out.find("raw bytes"), std::string::npos);
}

// Numbers of a table are no bytes: they stay with the host, unasked.
TEST_F(AugmentOnGpu, LeavesRowsOfNumbersToTheHost) {
  testing::write_file(directory() / "train.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n");
  testing::write_file(directory() / "test.csv", "1,2,0\n3,4,1\n");
  Json job = small_job();
  job["model"] = Json::parse(R"({"input": [2, 1, 1], "classes": 2,
                                 "layers": [{"type": "flatten"}, {"type": "linear", "out": 2}]})");
  job["data"] = {{"type", "csv"}, {"path", "."}};
  job["train"]["batch"] = 2;
  job["plan"] = {{"device", "cuda"}};
  write_job(job);
  EXPECT_EQ(train()["steps"], 4);
}

}  // namespace
}  // namespace trifold::test
