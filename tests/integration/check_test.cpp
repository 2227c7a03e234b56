// `trifold check`: what a network is, the memory it takes to the byte, and what is said of a job that cannot run.
#include <regex>

#include "runtime/config/job.h"
#include "runtime/train/model_options.h"
#include "support/job_fixture.h"
#include "support/paths.h"

namespace trifold::test {
namespace {

class Check : public JobFixture {
 protected:
  static std::string model_job(const std::string& name) { return source_dir() / "models" / (name + ".json"); }

  Json check(const std::string& job, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"check", job, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = trifold(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return last_json(result.out);
  }
};

// He et al. and torchvision: 25,557,032 parameters, 4.09 G multiply-adds for a 224x224 image.
TEST_F(Check, KnowsResNet50) {
  const Json table = check(model_job("resnet50"));
  std::int64_t parameters = 0;
  double flops = 0;
  double training_flops = 0;
  for (const Json& layer : table["layers"]) {
    parameters += layer["parameters"].get<std::int64_t>();
    flops += layer["flops"].get<double>();
    training_flops += layer["training_flops"].get<double>();
  }
  const double batch = table["layers"][0]["shape"][0];
  EXPECT_EQ(parameters, 25'557'032);
  EXPECT_NEAR(flops / batch, 2 * 4.09e9, 0.03 * 2 * 4.09e9);
  EXPECT_NEAR(training_flops / flops, 3, 0.1);
}

TEST_F(Check, PrintsATable) {
  write_job(small_job());
  const ProgramResult result = trifold({"check", "job.json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(says(result.out, "conv1  conv2d                         32x8x16x16           80"));
  EXPECT_TRUE(says(result.out, "2019 parameters; "));
  EXPECT_TRUE(says(result.out, "memory, exactly: arena "));
  EXPECT_FALSE(says(result.out, "  B"));
  EXPECT_TRUE(says(trifold({"check", "job.json", "--program"}).out, "conv1"));
}

TEST_F(Check, SaysHowRanksLieOnProcesses) {
  write_job(small_job());
  EXPECT_TRUE(says(trifold({"check", "job.json", "--plan", "dp=4", "--processes", "2"}).out,
                   "4 ranks in 2 processes: 0 and 1, 2 and 3\n"));
  EXPECT_EQ(check("job.json", {"--plan", "dp=4", "--processes", "2"})["process_of_rank"], Json::array({0, 0, 1, 1}));
  const ProgramResult refused = trifold({"check", "job.json", "--plan", "dp=4", "--processes", "3"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(says(refused.err,
                   "dp 4 x tp 1 x pp 1 is 4 ranks, which do not divide among the 3 processes of --processes; 2 or 4 "
                   "processes, or a plan of 3 or 6 ranks, would work"));
}

TEST_F(Check, PlannedBytesAreTheBytesTaken) {
  for (const char* name : {"lenet5", "resnet20", "unet"}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<Model> model = make_model(load_job(model_job(name)));
    EXPECT_EQ(check(model_job(name))["planned_bytes"], Json::array({model->memory_bytes()}));
  }
}

TEST_F(Check, RefusesWhatDoesNotFit) {
  for (const char* command : {"check", "train"}) {
    // Which kernels are quickest, and have scratch memory, differs from machine to machine; direct convolutions have
    // none.
    const ProgramResult result =
        trifold({command, model_job("resnet20"), "--set", "train.memory_limit=20MB", "--set", "train.math=strict"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(says(result.err, "resnet20.json: the job needs "));
    EXPECT_TRUE(says(result.err, "train.memory_limit allows 20.0 MB; the largest: 'conv1'"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  }
}

TEST_F(Check, AMistakeIsOneLineWithItsPlace) {
  Json job = small_job();
  job["model"]["layers"][0]["kernal"] = 3;
  write_job(job);
  const ProgramResult result = trifold({"check", "job.json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(
      std::regex_match(result.err, std::regex("trifold: job\\.json:16: /model/layers/0/kernal: unknown key 'kernal' "
                                              "in [^\n]*did you mean 'kernel'[^\n]*\n")))
      << result.err;
}

TEST_F(Check, ShapesThatDisagreeNameBothLayers) {
  Json job = small_job();
  job["model"]["layers"].insert(job["model"]["layers"].begin() + 3,
                                Json{{"id", "sum"}, {"type", "add"}, {"in", {"relu1", "pool1"}}});
  write_job(job);
  const ProgramResult result = trifold({"check", "job.json"});
  EXPECT_EQ(result.exit_code, 2);
  for (const char* part : {"sum", "relu1", "pool1", "8x16x16", "8x8x8"}) EXPECT_TRUE(says(result.err, part));
}

TEST_F(Check, TheCommandLineIsCheckedToo) {
  EXPECT_EQ(trifold({"check", "absent.json"}).exit_code, 2);
  EXPECT_EQ(trifold({"check"}).exit_code, 2);
  EXPECT_EQ(trifold({"fly"}).exit_code, 2);
  EXPECT_EQ(trifold({}).exit_code, 2);
  EXPECT_EQ(trifold({"--help"}).exit_code, 0);
  EXPECT_EQ(trifold({"train", "job.json", "--resume", "--force"}).exit_code, 2);
}

}  // namespace
}  // namespace trifold::test
