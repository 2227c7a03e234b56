// The jobs and networks that ship: all load, have the sizes known from the literature, and fit the schema, which is the
// one that the declarations make.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/config/job.h"
#include "runtime/config/model_section.h"
#include "runtime/config/schema.h"
#include "support/paths.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = test::source_dir() / "models";

std::string file_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<fs::path> json_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json" && entry.path().filename() != "schema.json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Follows the shapes through the network for a batch of one.
std::int64_t trained_parameters(const NetworkSpec& model) {
  std::map<std::string, Shape> shapes = {{"input", {1, model.input[0], model.input[1], model.input[2]}}};
  std::int64_t count = 0;
  for (const LayerSpec& spec : model.layers) {
    const std::unique_ptr<Layer> layer = find_layer_type(spec.type)->make(spec.values);
    std::vector<Shape> in;
    for (const std::string& id : spec.in) in.push_back(shapes.at(id));
    for (const ParameterSpec& parameter : layer->parameters(in))
      if (parameter.trained) count += parameter.shape.elements();
    shapes[spec.id] = layer->infer_shape(in);
  }
  EXPECT_EQ(shapes.at(model.layers.back().id), (Shape{1, model.classes}));
  return count;
}

TEST(Models, HaveTheParametersOfTheLiterature) {
  const std::map<std::string, std::int64_t> expected = {
      {"tutorial", 1'201'382}, {"lenet5", 61'706},          {"mlp", 535'818},
      {"resnet20", 272'474},   {"resnet50", 25'557'032},    {"vgg11", 132'863'336},
      {"vgg16", 138'357'544},  {"mobilenet_v1", 4'231'976}, {"wide_resnet28_10", 36'479'194}};
  for (const auto& [name, count] : expected) {
    SCOPED_TRACE(name);
    EXPECT_EQ(trained_parameters(read_model(read_json_file(kModels / "nets" / (name + ".json")))), count);
  }
}

TEST(Models, EveryJobLoadsAndEveryNetHasAJob) {
  const std::vector<fs::path> jobs = json_files(kModels);
  EXPECT_GE(jobs.size(), 11u);
  for (const fs::path& path : jobs) {
    SCOPED_TRACE(path.string());
    const Job job = load_job(path);
    EXPECT_GT(trained_parameters(job.model), 0);
    EXPECT_TRUE(parse_job(to_json_text(job), "resolved.json") == job);
  }
  for (const fs::path& path : json_files(kModels / "nets"))
    EXPECT_TRUE(fs::exists(kModels / path.filename())) << path << " has no job beside it";
}

TEST(Models, ResNet50ReadsInUnder60Lines) {
  const std::string text = file_text(kModels / "nets/resnet50.json");
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60);
}

// Our jobs fit the schema and, so that the schema is known to refuse, a few wrong ones do not.
TEST(Schema, AgreesWithTheParserInPython) {
  if (std::system("python3 -c 'import jsonschema' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3 with jsonschema is not installed";
  const fs::path script = test::source_dir() / "tests/runtime/config/check_schema.py";
  const fs::path schema = fs::path(testing::TempDir()) / "trifold_schema.json";
  std::ofstream(schema) << json_schema();
  EXPECT_EQ(
      std::system(("python3 '" + script.string() + "' '" + kModels.string() + "' '" + schema.string() + "'").c_str()),
      0);
  fs::remove(schema);
}

}  // namespace
}  // namespace trifold
