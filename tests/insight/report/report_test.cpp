// The page of every kind of run folder: what it carries, that nothing in it can break out of it, and its size.
#include "insight/report/report.h"

#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "insight/report/page_files.h"
#include "insight/report/run_data.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;
using ReportJson = nlohmann::ordered_json;

bool build_has_page() {
  try {
    (void)page_files();
    return true;
  } catch (const Error&) {
    return false;
  }
}

class ReportTest : public ::testing::Test {
 protected:
  const fs::path& folder() const { return directory_.path(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder() / name) << text; }

  // The error's sentence; the test fails if there is none, or no input error.
  std::string refusal() const {
    try {
      run_data(folder());
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    ADD_FAILURE() << "the folder was taken";
    return "";
  }

  testing::TemporaryDirectory directory_;
};

constexpr const char* kJob = R"({"name": "tiny", "model": {"input": [1, 8, 8], "classes": 3, "layers": [
  {"id": "conv", "type": "conv2d", "out": 4, "kernel": 3}, {"id": "relu", "type": "relu"},
  {"id": "flat", "type": "flatten"}, {"id": "fc", "type": "linear", "out": 3}]},
  "data": {"type": "synthetic", "classes": 3}, "train": {"batch": 4, "epochs": 1},
  "plan": {"device": "cpu", "pp": 2, "micro_batches": 2}})";

TEST_F(ReportTest, ShowsATrainingRun) {
  write("metrics.jsonl", "{\"step\":1,\"epoch\":1,\"phase\":\"train\",\"loss\":2.5}\n");
  write("job.json", kJob);
  write("evaluation.json", R"({"classes": ["a", "b"], "confusion": [[1, 0], [0, 1]], "worst": []})");
  const ReportJson data = run_data(folder());
  EXPECT_EQ(data["metrics"]["series"]["train"]["loss"]["mean"][0], 2.5);
  EXPECT_EQ(data["evaluation"]["classes"][1], "b");
  ASSERT_TRUE(data.contains("network")) << data["network_missing"];
  const ReportJson& layers = data["network"]["layers"];
  EXPECT_EQ(layers[0]["id"], "conv");
  EXPECT_EQ(layers[0]["in"].dump(), R"(["input"])");
  EXPECT_EQ(layers[3]["in"].dump(), R"(["flat"])");
  EXPECT_EQ(layers[3]["shape"].dump(), "[3]");
  EXPECT_EQ(layers[0]["parameters"], 4 * 9 + 4);
  EXPECT_EQ(layers[0]["family"], "");
  EXPECT_EQ(layers[1]["family"], "activation");
  EXPECT_EQ(layers[0]["stage"], 0) << data["network"].value("note", "");
  EXPECT_EQ(layers[3]["stage"], 1);
}

TEST_F(ReportTest, ShowsARunWhoseJobThisVersionRefuses) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":2.5}\n");
  write("job.json", R"({"model": {"layers": "of another time"}})");
  const ReportJson data = run_data(folder());
  EXPECT_FALSE(data.contains("network"));
  EXPECT_TRUE(data.contains("network_missing"));
  EXPECT_TRUE(data.contains("job"));
}

TEST_F(ReportTest, ShowsAComparison) {
  ReportJson plan = {{"plan", "single"}, {"losses", ReportJson::array()}, {"collectives", {1, 2}}};
  for (int step = 0; step < 2000; ++step) plan["losses"].push_back(1.0 + 1e-9 * step);
  write("compare.json", ReportJson{{"plans", {plan}}, {"winner", "single"}}.dump());
  const ReportJson data = run_data(folder());
  EXPECT_EQ(data["compare"]["plans"][0]["losses"].size(), 500u);
  EXPECT_EQ(data["compare"]["plans"][0]["losses_stride"], 4);
  EXPECT_EQ(data["compare"]["plans"][0]["losses"][0], 1.0 + 3e-9) << "losses keep their digits";
}

TEST_F(ReportTest, ShowsAProfile) {
  ReportJson kernels = ReportJson::array();
  for (int i = 0; i < 5000; ++i) kernels.push_back({{"name", "conv2d"}, {"total_ms", 1.23456789}});
  write("profile.json", ReportJson{{"machine", ReportJson::object()}, {"kernels", kernels}}.dump());
  const ReportJson data = run_data(folder());
  EXPECT_EQ(data["profile"]["kernels"]["count"], 1500);
  EXPECT_EQ(data["profile"]["kernels_in_all"], 5000);
  EXPECT_EQ(data["profile"]["kernels"]["columns"]["total_ms"].size(), 1500u);
  EXPECT_EQ(data["profile"]["kernels"]["columns"]["total_ms"][0], 1.23457);
}

TEST_F(ReportTest, KernelsMayHaveOtherFigures) {
  write("profile.json", R"({"kernels": [{"name": "a"}, {"name": "b", "sectors": 7}, {"name": "c"}]})");
  const ReportJson columns = run_data(folder())["profile"]["kernels"]["columns"];
  EXPECT_EQ(columns["sectors"], ReportJson::parse("[null, 7, null]"));
  write("profile.json", R"({"kernels": [3]})");
  EXPECT_NE(refusal().find("a kernel that is no object"), std::string::npos);
}

TEST_F(ReportTest, ShowsTheMemoryOfAsManyRanksAsFit) {
  ReportJson timeline = {{"ranks", {0}}, {"lives", ReportJson::array()}};
  for (int i = 0; i < 5000; ++i) timeline["lives"].push_back({i, i, i, 1000000 + i, 1000});
  ReportJson profile = {{"kernels", ReportJson::array()}, {"memory", {{"timelines", {timeline, timeline, timeline}}}}};
  write("profile.json", profile.dump());
  const ReportJson memory = run_data(folder())["profile"]["memory"];
  EXPECT_EQ(memory["timelines_in_all"], 3);
  EXPECT_EQ(memory["timelines"].size(), 2u);
  profile["memory"] = 3;
  write("profile.json", profile.dump());
  EXPECT_FALSE(run_data(folder())["profile"].contains("memory"));
}

TEST_F(ReportTest, RefusesWhatIsNoRun) {
  EXPECT_NE(refusal().find("holds no run"), std::string::npos);
  write("compare.json", "{\"plans\": [");
  EXPECT_NE(refusal().find("compare.json' is no valid JSON"), std::string::npos);
  write("compare.json", "[]");
  EXPECT_NE(refusal().find("no JSON object"), std::string::npos);
  write("compare.json", "{}");
  EXPECT_NE(refusal().find("no list \"plans\""), std::string::npos);
  fs::remove(folder() / "compare.json");
  write("profile.json", "{\"kernels\": 3}");
  EXPECT_NE(refusal().find("no list \"kernels\""), std::string::npos);
  EXPECT_THROW(run_data(folder() / "nowhere"), Error);
}

TEST(ReportText, CannotLeaveItsElement) {
  const ReportJson json = {{"name", "</script><!--<script>&"}, {"bytes", "\xff"}};
  const std::string safe = script_safe(json);
  EXPECT_EQ(safe.find('<'), std::string::npos);
  EXPECT_EQ(ReportJson::parse(safe)["name"], "</script><!--<script>&");
  EXPECT_EQ(html_escaped("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
}

TEST_F(ReportTest, StaysSmallForALongRun) {
  if (!build_has_page()) GTEST_SKIP() << "this build has no d3 (package node-d3)";
  {
    std::ofstream out(folder() / "metrics.jsonl");
    for (int step = 1; step <= 100'000; ++step)
      out << fmt::format(R"({{"step":{0},"epoch":{1},"phase":"train","loss":{2},"accuracy":{3},"learning_rate":{3},)"
                         R"("loss_scale":65536,"images_per_s":{2},"time_s":{3}}})"
                         "\n",
                         step, step / 100, 1.0 / step, step * 0.123456789);
  }
  const fs::path out = folder() / "report.html";
  const fs::path run = folder();
  write_report(std::span(&run, 1), out);
  EXPECT_LT(fs::file_size(out), 1'000'000u);
  std::ifstream in(out);
  const std::string page(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(page.find("d3js.org"), std::string::npos);
  EXPECT_EQ(page.find("{{"), page.npos) << "every place of the frame is filled";
  EXPECT_EQ(page.find("src=\"http"), page.npos) << "nothing comes from a network";
}

}  // namespace
}  // namespace trifold
