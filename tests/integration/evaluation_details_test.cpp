// evaluation.json, of `trifold train` and `trifold eval --details`: what it says agrees with the score, whatever plan
// evaluates, and its pictures are those of the samples.
#include "runtime/checkpoint/python.h"
#include "runtime/data/picture_files.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class Details : public JobFixture {
 protected:
  Json details(const fs::path& file = "runs/job/evaluation.json") const {
    return Json::parse(testing::read_file(directory() / file));
  }
  Json eval(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"eval", "job.json", "--details", "details.json"});
    const ProgramResult result = trifold(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return details("details.json");
  }
};

TEST_F(Details, AgreeWithTheScore) {
  write_job(small_job());
  const Json done = train({"--set", "train.epochs=1"});
  const Json found = details();
  EXPECT_EQ(found["classes"], Json({"0", "1", "2"}));
  double correct = 0;
  double samples = 0;
  ASSERT_EQ(found["confusion"].size(), 3u);
  for (std::size_t label = 0; label < 3; ++label) {
    for (const Json& count : found["confusion"][label]) samples += count.get<double>();
    correct += found["confusion"][label][label].get<double>();
  }
  EXPECT_EQ(samples, 100);
  EXPECT_LT(correct, 100) << "nothing is misclassified: the test sees too little";
  EXPECT_DOUBLE_EQ(correct / samples, done["test_accuracy"]);
  ASSERT_EQ(found["worst"].size(), 24u);
  for (std::size_t i = 0; i < 24; ++i) {
    const Json& sample = found["worst"][i];
    EXPECT_EQ(sample["label"], sample["index"].get<int>() % 3);  // as synthetic images are labelled
    EXPECT_LE(sample["loss"], found["worst"][i > 0 ? i - 1 : 0]["loss"]);
    EXPECT_EQ(sample["png"].get<std::string>().find("iVBORw0KGgo"), 0u);  // a PNG's signature
  }
  EXPECT_EQ(eval({}), found);
}

TEST_F(Details, AreTheSameUnderEveryPlan) {
  write_job(small_job());
  train();
  const Json single = details();
  for (const char* plan : {"dp=2", "tp=2", "pp=2", "dp=2,tp=2,pp=2,micro_batches=2"}) {
    const Json folded = eval({"--plan", plan});
    EXPECT_EQ(folded["confusion"], single["confusion"]) << plan;
    ASSERT_EQ(folded["worst"].size(), single["worst"].size()) << plan;
    for (std::size_t i = 0; i < single["worst"].size(); ++i) {
      const Json& expected = single["worst"][i];
      const Json& sample = folded["worst"][i];
      EXPECT_EQ(sample["index"], expected["index"]) << plan;
      EXPECT_EQ(sample["png"], expected["png"]) << plan;
      EXPECT_NEAR(sample["loss"].get<double>(), expected["loss"].get<double>(), 1e-4) << plan;
      EXPECT_NEAR(sample["probability"].get<double>(), expected["probability"].get<double>(), 1e-4) << plan;
    }
  }
}

// The samples are numbered by the data set, and classes have the names of their folders.
TEST_F(Details, ShowThePicturesOfAFolder) {
  if (!testing::python_imports("PIL.Image")) GTEST_SKIP() << "Python has no Pillow";
  for (const char* split : {"train", "test"}) {
    for (int index = 0; index < 6; ++index) {
      const auto pixels = testing::solid_rgb(8 * 8, index % 2 == 0 ? 250 : 10, 40 * index, 77);
      const auto png = testing::encode_png(8, 8, PNG_FORMAT_RGB, pixels.data());
      const fs::path folder = directory() / "pictures" / split / (index % 2 == 0 ? "red" : "blue");
      fs::create_directories(folder);
      testing::write_file(folder / (std::to_string(index) + ".png"),
                          std::string(reinterpret_cast<const char*>(png.data()), png.size()));
    }
  }
  write_job(Json::parse(R"({
    "model": {"input": [3, 8, 8], "classes": 2, "layers": [
      {"type": "flatten"}, {"id": "fc", "type": "linear", "out": 2}]},
    "data": {"type": "image_folder", "path": "pictures"},
    "train": {"epochs": 1, "batch": 3, "threads": 1}})"));
  train();
  EXPECT_EQ(details()["classes"], Json({"blue", "red"}));
  const auto result = testing::run_python("file = '" + (directory() / "runs/job/evaluation.json").string() + R"('
import base64, io, json
from PIL import Image
worst = json.load(open(file))['worst']
assert sorted(s['index'] for s in worst) == list(range(6)), worst
for sample in worst:
    image = Image.open(io.BytesIO(base64.b64decode(sample['png'], validate=True)))
    assert image.size == (8, 8) and image.mode == 'RGB', image
    number = [1, 3, 5, 0, 2, 4][sample['index']]  # blue ones first, then red ones
    assert image.getpixel((3, 5)) == (250 if number % 2 == 0 else 10, 40 * number, 77), (sample['index'], image.getpixel((3, 5)))
    assert sample['label'] == (number % 2 == 0)
)");
  EXPECT_EQ(result.exit_status, 0) << result.output;
}

// What TensorBoard finds in a run's files: names, steps, how many numbers, and the images that evaluation.json has.
TEST_F(Details, AndHistogramsAreInTensorboard) {
  if (!testing::python_imports("tensorboard.backend.event_processing.event_file_loader"))
    GTEST_SKIP() << "Python's tensorboard is not installed";
  write_job(small_job());
  const auto check = [&](const std::string& run, const std::string& script) {
    const auto result = testing::run_python("run = '" + (directory() / "runs" / run).string() + R"('
import base64, glob, json
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
events = [e for f in glob.glob(run + '/tensorboard/*') for e in LegacyEventFileLoader(f).Load()]
histograms = [(e.step, v.tag, v.histo.num, sum(v.histo.bucket)) for e in events for v in e.summary.value
              if v.HasField('histo')]
images = [(e.step, v.tag, v.image) for e in events for v in e.summary.value if v.HasField('image')]
)" + script);
    EXPECT_EQ(result.exit_status, 0) << result.output;
  };
  const std::string histograms = R"(
sizes = {'conv1.weight': 72, 'conv1.bias': 8, 'conv2.weight': 1152, 'conv2.bias': 16, 'fc.weight': 768, 'fc.bias': 3}
sizes = {n: s for n, s in sizes.items() if any(t == 'weights/' + n for _, t, _, _ in histograms)}
assert 'fc.weight' in sizes and 'conv2.weight' in sizes, histograms
expected = {(s, k + '/' + n, c, c) for s in (20, 40) for k in ('weights', 'gradients') for n, c in sizes.items()}
assert set(histograms) == expected, set(histograms) ^ expected
)";
  train();
  check("job", histograms + R"(
wrong = [s for s in json.load(open(run + '/evaluation.json'))['worst'] if s['label'] != s['predicted']]
assert len(wrong) > 0 and len(images) == len(wrong), (len(images), len(wrong))
for number, ((step, tag, image), sample) in enumerate(zip(images, wrong)):
    assert step == 40 and tag == f"misclassified/{number + 1:02}: {sample['label']} as {sample['predicted']}", tag
    assert image.encoded_image_string == base64.b64decode(sample['png'])
    assert (image.height, image.width, image.colorspace) == (16, 16, 1)
)");
  train({"--name", "folded", "--plan", "dp=2,tp=2,pp=2,micro_batches=2"});
  check("folded", histograms);
  // Gradients are shown without the scale of fp16, which is 65536 at first.
  train({"--name", "half", "--set", "train.precision=fp16"});
  check("half", R"(
largest = max(max(-v.histo.min, v.histo.max) for e in events for v in e.summary.value if v.tag.startswith('gradients/'))
assert 0 < largest < 10, largest
)");
  train({"--name", "without", "--set", "train.tensorboard.histograms=false"});
  check("without", "assert not histograms\n");
  EXPECT_EQ(metrics_but_times("without"), metrics_but_times("job"));
}

// A stop rule decides after the evaluation that this was the last one.
TEST_F(Details, ComeAlsoWhenARuleEndsTheRun) {
  Json job = small_job();
  job["train"]["epochs"] = 50;
  job["train"]["stop"] = {{"target_accuracy", 0.3}};
  write_job(job);
  const Json done = train();
  EXPECT_EQ(done["stopped_by"], "target_accuracy");
  const Json found = details();
  double correct = 0;
  for (std::size_t label = 0; label < 3; ++label) correct += found["confusion"][label][label].get<double>();
  EXPECT_DOUBLE_EQ(correct / 100, done["test_accuracy"]);
  EXPECT_EQ(metrics().size(), done["epochs"].get<std::size_t>() * 21);  // it is not logged twice
}

TEST_F(Details, AreNotOfARegression) {
  testing::write_file(directory() / "train.csv", "1,2,3\n2,3,5\n3,4,7\n");
  testing::write_file(directory() / "test.csv", "1,2,3\n2,3,5\n");
  write_job(Json::parse(R"({
    "model": {"input": [2, 1, 1], "classes": 0, "layers": [
      {"type": "flatten"}, {"id": "fc", "type": "linear", "out": 1}, {"type": "mse"}]},
    "data": {"type": "csv", "path": ".", "targets": 1},
    "train": {"epochs": 1, "batch": 3, "threads": 1}})"));
  train();
  EXPECT_FALSE(fs::exists(directory() / "runs/job/evaluation.json"));
  const ProgramResult refused = trifold({"eval", "job.json", "--details", "details.json"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(says(refused.err, "--details is about classes"));
}

}  // namespace
}  // namespace trifold::test
