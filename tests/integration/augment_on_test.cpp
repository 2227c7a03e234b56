// data.augment_on: images that the program augments and normalises train a model as those of the loader do, to the bit.
#include <algorithm>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/picture_files.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class AugmentOn : public JobFixture {
 protected:
  static Json augmented_job() {
    Json job = small_job();
    job["model"]["input"] = {3, 16, 16};
    job["data"]["train_samples"] = 10 * 32 + 7;  // an epoch leaves some out
    job["data"]["normalize"] = {{"mean", {0.4, 0.5, 0.6}}, {"std", {0.2, 0.25, 0.3}}};
    job["data"]["augment"] = {{{"type", "random_crop"}, {"pad", 2}}, {{"type", "flip"}}, {{"type", "cutout"}}};
    return job;
  }

  void train_on(const std::string& where, std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.end(), {"--name", where, "--set", "data.augment_on=" + where});
    train(arguments);
  }

  void expect_the_same_run(const std::string& a, const std::string& b) const {
    EXPECT_EQ(metrics_but_times(a), metrics_but_times(b));
    const SafetensorsFile expected(checkpoints(a).back());
    const SafetensorsFile found(checkpoints(b).back());
    ASSERT_EQ(found.tensors().size(), expected.tensors().size());
    for (const NamedTensor& tensor : expected.tensors()) {
      const NamedTensor* other = found.find(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(other->data, tensor.data)) << tensor.name;
    }
  }
};

TEST_F(AugmentOn, DeviceTrainsToTheBitsOfTheHost) {
  write_job(augmented_job());
  for (const char* where : {"host", "device", "auto"}) train_on(where);
  expect_the_same_run("host", "device");
  expect_the_same_run("host", "auto");
}

TEST_F(AugmentOn, DeviceTrainsToTheBitsOfTheHostInMicroBatchesOf16BitNumbers) {
  Json job = augmented_job();
  job["model"]["layers"][0]["precision"] = "fp32";  // it reads the images as they are
  write_job(job);
  for (const char* where : {"host", "device"})
    train_on(where, {"--set", "train.accumulate=2", "--set", "train.precision=bf16"});
  expect_the_same_run("host", "device");
}

TEST_F(AugmentOn, ARunMayMoveFromOneToTheOther) {
  write_job(augmented_job());
  train_on("host");
  train({"--name", "moved", "--set", "train.epochs=1", "--set", "data.augment_on=device"});
  train({"--name", "moved", "--resume", "--set", "data.augment_on=host"});
  expect_the_same_run("host", "moved");
}

// Pictures that are cropped at random while they are decoded: the changes after that are the same wherever they happen.
TEST_F(AugmentOn, PicturesMayBeCroppedByTheirSource) {
  for (const char* split : {"train", "test"})
    for (int index = 0; index < 24; ++index) {
      std::vector<std::uint8_t> pixels(20 * 24 * 3);
      for (std::size_t i = 0; i < pixels.size(); ++i)
        pixels[i] = static_cast<std::uint8_t>(i * (7 + index % 3) + index);
      const auto png = testing::encode_png(20, 24, PNG_FORMAT_RGB, pixels.data());
      const fs::path folder = directory() / "pictures" / split / std::to_string(index % 3);
      fs::create_directories(folder);
      testing::write_file(folder / (std::to_string(index) + ".png"),
                          std::string(reinterpret_cast<const char*>(png.data()), png.size()));
    }
  Json job = augmented_job();
  job["data"].update(Json{{"type", "image_folder"}, {"path", "pictures"}, {"random_resized_crop", true}});
  job["data"].erase("train_samples");
  job["data"].erase("test_samples");
  job["train"]["batch"] = 8;
  write_job(job);
  for (const char* where : {"host", "device"}) train_on(where);
  expect_the_same_run("host", "device");
}

TEST_F(AugmentOn, CheckCountsRawBytesAndSaysWhere) {
  write_job(augmented_job());
  const auto inputs = [&](const std::string& where) {
    const ProgramResult result = trifold({"check", "job.json", "--json", "--set", "data.augment_on=" + where});
    return last_json(result.out)["memory"]["inputs"].get<std::int64_t>();
  };
  constexpr std::int64_t kPixels = 32 * 3 * 16 * 16;
  EXPECT_EQ(inputs("host") - inputs("device"), 3 * kPixels);
  const ProgramResult device = trifold({"check", "job.json", "--set", "data.augment_on=device"});
  EXPECT_TRUE(says(device.out, "images come as raw bytes and are augmented and normalised on cpu\n"));
  EXPECT_EQ(trifold({"check", "job.json"}).out.find("raw bytes"), std::string::npos);
}

TEST_F(AugmentOn, TheListIsCheckedAgainstTheImagesWhereverItIsApplied) {
  Json job = augmented_job();
  job["data"]["augment"] = {{{"type", "cutout"}, {"size", 17}}};
  write_job(job);
  for (const char* where : {"host", "device"}) {
    const ProgramResult result = trifold({"train", "job.json", "--set", std::string("data.augment_on=") + where});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(says(result.err, "a cutout of 17 pixels does not suit images of 3x16x16; give 1 to 16"));
  }
}

TEST_F(AugmentOn, ScoresASavedModel) {
  write_job(augmented_job());
  train();
  const auto scored = [&](const std::string& where) {
    return last_json(trifold({"eval", "job.json", "--json", "--set", "data.augment_on=" + where}).out);
  };
  const Json host = scored("host");
  const Json device = scored("device");
  EXPECT_EQ(device["samples"], 100);
  EXPECT_EQ(device["test_loss"], host["test_loss"]);
  EXPECT_EQ(device["test_accuracy"], host["test_accuracy"]);
}

}  // namespace
}  // namespace trifold::test
