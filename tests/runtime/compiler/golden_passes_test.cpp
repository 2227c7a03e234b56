// What each pass makes of small jobs, held as text in golden/: read a file before and after a pass to see what the pass
// does. A change that is meant is written down with TRIFOLD_UPDATE_GOLDEN=1, and its diff is reviewed like code.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/ops/shape_ops.h"
#include "runtime/compiler/program.h"
#include "runtime/config/job.h"
#include "runtime/train/model_options.h"
#include "runtime/train/parallel_plan.h"
#include "support/paths.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

// A convolution, its batch norm and ReLU, pooling and a second convolution, which reads what the first one's tensor
// ranks made.
constexpr const char* kBlock = R"([
  {"id": "conv1", "type": "conv2d", "out": 4, "kernel": 3, "pad": 1, "bias": false},
  {"id": "bn1", "type": "batch_norm"},
  {"id": "relu1", "type": "relu"},
  {"id": "pool1", "type": "max_pool", "kernel": 2},
  {"id": "conv2", "type": "conv2d", "out": 4, "kernel": 3, "pad": 1},
  {"id": "pool2", "type": "global_avg_pool"},
  {"id": "fc", "type": "linear", "out": 3}])";

struct Golden {
  const char* name;  // golden/<name>.<pass>.txt
  const char* plan;  // as JSON
  std::vector<Pass> passes;
  int rank = 0;
  const char* train = R"({"batch": 8, "epochs": 1})";
};

void PrintTo(const Golden& golden, std::ostream* out) {
  *out << golden.name;
}

// By pass, of a rank's first chunk. The reference backend decides nothing by the machine's instruction set.
std::map<Pass, std::string> texts_of(const Golden& golden) {
  const Job job = parse_job(fmt::format(R"({{"model": {{"input": [2, 8, 8], "classes": 3, "layers": {}}},
                     "data": {{"type": "synthetic", "train_samples": 64, "test_samples": 8}},
                     "train": {}, "plan": {}}})",
                                        kBlock, golden.train, golden.plan),
                            "golden.json");
  ModelOptions options = model_options(job);
  options.backend = &reference_backend();
  const ParallelPlan plan = make_parallel_plan(job, options);
  ModelOptions rank = plan.rank_options(options, nullptr, golden.rank).front();
  std::map<Pass, std::string> texts;
  rank.observer = [&](const PassResult& result) { texts[result.pass] = to_string(result); };
  compile_training(job.model, rank);
  return texts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "- " what is held, "+ " what was made; lines of the longest common subsequence are left out.
std::string difference(const std::string& held, const std::string& made) {
  const std::vector<std::string> a = lines_of(held);
  const std::vector<std::string> b = lines_of(made);
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::string text;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      text += "- " + a[i++] + "\n";
    } else {
      text += "+ " + b[j++] + "\n";
    }
  }
  return text;
}

std::string content_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class GoldenPasses : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenPasses, MakeWhatIsHeld) {
  const fs::path folder = source_dir() / "tests/runtime/compiler/golden";
  const std::map<Pass, std::string> texts = texts_of(GetParam());
  for (const Pass pass : GetParam().passes) {
    ASSERT_TRUE(texts.contains(pass)) << "the plan has no pass " << name_of(pass);
    const fs::path file = folder / fmt::format("{}.{}.txt", GetParam().name, name_of(pass));
    const std::string& made = texts.at(pass);
    if (std::getenv("TRIFOLD_UPDATE_GOLDEN") != nullptr) {
      fs::create_directories(folder);
      std::ofstream(file) << made;
      continue;
    }
    EXPECT_TRUE(content_of(file) == made) << file.filename().string() << " (TRIFOLD_UPDATE_GOLDEN=1 writes it anew):\n"
                                          << difference(content_of(file), made);
  }
}

// Micro-batches of 2 or 4 samples.
constexpr const char* kSmallGroups = R"({"batch": 8, "epochs": 1, "bn_group": 2})";

const Golden kGoldens[] = {
    {"one_rank", "{}", {Pass::autodiff, Pass::fusion}},
    {"bf16", "{}", {Pass::precision}, 0, R"({"batch": 8, "epochs": 1, "precision": "bf16"})"},
    {"tensor", R"({"tp": 2})", {Pass::forward, Pass::tensor, Pass::autodiff}},
    {"tensor_rows", R"({"tp": 2, "split": [{"match": "*", "by": "rows"}]})", {Pass::tensor, Pass::autodiff}, 1},
    {"pipeline_first", R"({"pp": 2, "micro_batches": 2, "stages": [4, 3]})", {Pass::stages}, 0, kSmallGroups},
    {"pipeline_last", R"({"pp": 2, "micro_batches": 2, "stages": [4, 3]})", {Pass::stages}, 1, kSmallGroups},
    {"zero_bubble",
     R"({"pp": 2, "micro_batches": 2, "stages": [4, 3], "schedule": "zero-bubble"})",
     {Pass::split_backward},
     0,
     kSmallGroups},
    {"recomputing",
     R"({"pp": 2, "micro_batches": 4, "stages": [4, 3], "recompute": [0]})",
     {Pass::layouts, Pass::recompute_stage},
     0,
     kSmallGroups},
    {"zero2", R"({"dp": 2, "zero": 2})", {Pass::layouts, Pass::partition}},
    {"zero3", R"({"dp": 2, "zero": 3})", {Pass::partition}},
};

INSTANTIATE_TEST_SUITE_P(Jobs, GoldenPasses, ::testing::ValuesIn(kGoldens),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(GoldenPasses, DifferencesAreShownByLine) {
  EXPECT_EQ(difference("a\nb\nc\n", "a\nx\nc\nd\n"), "- b\n+ x\n+ d\n");
  EXPECT_EQ(difference("a\n", "a\n"), "");
}

TEST(Passes, HaveNamesThatAreReadBack) {
  for (const std::string& name : pass_names()) {
    const std::optional<Pass> pass = parse_pass(name);
    ASSERT_TRUE(pass) << name;
    EXPECT_EQ(name_of(*pass), name);
  }
  EXPECT_EQ(parse_pass("fuse"), std::nullopt);
}

TEST(Passes, AreVerifiedBeforeAnObserverSeesThem) {
  if (!verifies_passes()) GTEST_SKIP() << "this build does not verify passes";
  Graph graph;
  const ValueId x = graph.add_value({"x", {2, 3}});
  const ValueId y = graph.add_value({"y", {2, 3}});
  graph.nodes.push_back({std::make_shared<const Reshape>(), {x}, {y}});  // nobody writes x
  bool seen = false;
  CompileOptions options;
  options.backend = &reference_backend();
  options.observer = [&](const PassResult&) { seen = true; };
  try {
    compile(graph, options);
    FAIL() << "a graph that reads what nobody writes was compiled";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("after the cut into stages"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(seen);
}

}  // namespace
}  // namespace trifold::test
