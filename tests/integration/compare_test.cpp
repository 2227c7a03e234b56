// `trifold compare`: plans side by side, on one model and the same samples.
#include <cmath>
#include <sstream>

#include "support/job_fixture.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

class Compare : public JobFixture {
 protected:
  static Json normalised_job() {
    Json job = small_job();
    Json& layers = job["model"]["layers"];
    layers.insert(layers.begin() + 1, Json{{"id", "bn1"}, {"type", "batch_norm"}});
    job["data"]["augment"] = Json::array({Json{{"type", "random_crop"}, {"pad", 2}}});
    return job;
  }

  // A build without d3 writes no report.
  std::size_t entries_besides_report() const {
    const fs::path folder = directory() / "runs/job-compare";
    return testing::count_entries(folder) - (fs::exists(folder / "report.html") ? 1 : 0);
  }

  // With --json and these; the test fails if it did not end with 0.
  Json compare(const std::string& plans, std::vector<std::string> arguments = {}) const {
    std::vector<std::string> all = {"compare", "job.json", "--json", "--plans", plans};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const ProgramResult result = trifold(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return last_json(result.out);
  }
};

double sum_of(const Json& numbers) {
  double sum = 0;
  for (const auto& [name, value] : numbers.items()) sum += value.get<double>();
  return sum;
}

TEST_F(Compare, MeasuresEveryPlan) {
  write_job(normalised_job());
  const std::string plans = "single; dp=2; tp=2; pp=2,schedule=1f1b; dp=2,pp=2";
  const Json found = compare(plans, {"--steps", "8", "--rounds", "2", "--assert-equal", "1e-4"});
  EXPECT_EQ(found["bn_group"], 8) << "what a pipeline of 4 micro-batches can take together";
  ASSERT_EQ(found["plans"].size(), 5u);
  const std::vector<std::size_t> ranks = {1, 2, 2, 2, 4};
  double most = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Json& plan = found["plans"][i];
    SCOPED_TRACE(plan["plan"]);
    EXPECT_GT(plan["images_per_s"], 0.0);
    EXPECT_GE(plan["spread"], 0.0);
    EXPECT_LE(plan["slowest_images_per_s"], plan["images_per_s"]);
    EXPECT_GE(plan["fastest_images_per_s"], plan["images_per_s"]);
    EXPECT_GT(plan["efficiency"], 0.0);
    EXPECT_NEAR(plan["speedup"].get<double>(),
                plan["images_per_s"].get<double>() / found["plans"][0]["images_per_s"].get<double>(), 1e-9);
    EXPECT_NEAR(sum_of(plan["step_ms"]), 32e3 / plan["images_per_s"].get<double>(), 1e-6) << "the parts add up";
    for (const char* part : {"compute", "exposed_comm", "bubble", "input", "optimizer"})
      EXPECT_GE(plan["step_ms"][part], 0.0) << part;
    ASSERT_EQ(plan["losses"].size(), 8u);
    EXPECT_EQ(plan["peak_bytes"].size(), ranks[i]);
    EXPECT_EQ(plan["planned_bytes"].size(), ranks[i]);
    EXPECT_LE(plan["max_loss_rel_diff"], 1e-4);
    EXPECT_LE(plan["max_grad_rel_diff"], 1e-4);
    EXPECT_FALSE(plan["why"].get<std::string>().empty());
    for (const auto& [kind, sent] : plan["bytes_sent"].items()) EXPECT_EQ(sent.size(), ranks[i]) << kind;
    ASSERT_EQ(plan["sent_to"].size(), ranks[i]);
    for (std::size_t rank = 0; rank < ranks[i]; ++rank) {
      double sent = 0;
      for (const auto& [kind, by_rank] : plan["bytes_sent"].items()) sent += by_rank[rank].get<double>();
      EXPECT_DOUBLE_EQ(sum_of(plan["sent_to"][rank]), sent) << "all that a rank sends goes to some rank";
      EXPECT_EQ(plan["sent_to"][rank][rank], 0.0);
    }
    most = std::max(most, plan["images_per_s"].get<double>());
    if (found["winner"] == plan["plan"]) {
      EXPECT_EQ(plan["why"], "the fastest");
    }
  }
  const auto sends = [&](std::size_t plan, const char* kind) {
    return found["plans"][plan]["bytes_sent"].contains(kind);
  };
  EXPECT_EQ(found["plans"][0]["bytes_sent"], Json::object());
  EXPECT_TRUE(sends(1, "all_reduce"));
  EXPECT_TRUE(sends(3, "send"));
  EXPECT_FALSE(sends(3, "all_reduce"));
  EXPECT_TRUE(sends(4, "all_reduce") && sends(4, "send"));
  EXPECT_EQ(found["plans"][3]["pipeline"]["micro_batches"], 4);
  EXPECT_GT(found["plans"][3]["pipeline"]["predicted_bubble_ms"], 0.0);
  for (const Json& plan : found["plans"])
    if (found["winner"] == plan["plan"]) {
      EXPECT_EQ(plan["images_per_s"], most);
    }

  // The run folder holds the same, and the job.
  EXPECT_EQ(last_json(testing::read_file(directory() / "runs/job-compare/compare.json")), found);
  EXPECT_EQ(trifold({"check", "runs/job-compare/job.json"}).exit_code, 0);
  EXPECT_EQ(entries_besides_report(), 3u) << "environment.json is the third";
}

// The single run of a comparison is the run that `train` does.
TEST_F(Compare, TrainsAsTrainDoes) {
  write_job(normalised_job());
  const Json found = compare("dp=2", {"--steps", "24", "--rounds", "3"});
  train({"--quiet"});
  std::vector<double> losses;
  for (const Json& line : metrics())
    if (line["phase"] == "train") losses.push_back(line["loss"]);
  losses.resize(24);
  EXPECT_EQ(found["bn_group"], 32);
  EXPECT_EQ(found["plans"][0]["plan"], "single");
  EXPECT_EQ(found["plans"][0]["losses"].get<std::vector<double>>(), losses);
}

// Where not all models fit into memory at once, they are put away between their turns.
TEST_F(Compare, TakesTurnsInLittleMemory) {
  write_job(normalised_job());
  const std::vector<std::string> arguments = {"--steps", "6", "--rounds", "3"};
  const Json found = compare("dp=2; pp=2", arguments);
  const std::int64_t single = found["plans"][0]["planned_bytes"][0];
  std::vector<std::string> limited = arguments;
  limited.insert(limited.end(), {"--set", "train.memory_limit=" + std::to_string(single + 1)});
  const Json in_little = compare("dp=2; pp=2", limited);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(in_little["plans"][i]["losses"], found["plans"][i]["losses"]) << i;
  EXPECT_EQ(entries_besides_report(), 3u) << "models were left behind";
}

TEST_F(Compare, FailsWherePlansDiffer) {
  write_job(normalised_job());
  const ProgramResult result = trifold(
      {"compare", "job.json", "--plans", "pp=2", "--steps", "12", "--rounds", "1", "--assert-equal", "0", "--quiet"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(says(result.err, "trifold: plan 'pp=2': the "));
  EXPECT_TRUE(says(result.err, "--assert-equal allows 0"));
  EXPECT_TRUE(says(result.out, "fastest: ")) << "the figures are shown nevertheless";
  // A plan is equal to itself.
  EXPECT_EQ(trifold({"compare", "job.json", "--plans", "single; single", "--steps", "4", "--rounds", "2",
                     "--assert-equal", "0", "--quiet"})
                .exit_code,
            0);
}

TEST_F(Compare, PrintsTablesThatFitATerminal) {
  write_job(normalised_job());
  const ProgramResult result =
      trifold({"compare", "job.json", "--plans", "single; dp=2; dp=2,pp=2", "--steps", "4", "--rounds", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "round 1/2:  single "));
  EXPECT_TRUE(says(result.err, "round 2/2:  single "));
  EXPECT_TRUE(says(result.out, "job: 3 plans, 4 steps of 32 images each, in 2 rounds; 1 core\n"));
  EXPECT_TRUE(says(result.out,
                   "batch norm takes 8 samples together in every plan: the largest group that each can "
                   "honour (the job asks for 32)\n"));
  EXPECT_TRUE(says(result.out, "all_reduce data"));
  EXPECT_TRUE(says(result.out, "fastest: "));
  EXPECT_TRUE(says(result.out, "run folder: runs/job-compare"));
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("ms a step longer") != std::string::npos) continue;
    EXPECT_LE(line.size(), 120u) << line;
  }
}

// Servers and workers are processes; sync is the single run, and ssp goes its own way within its bound.
TEST_F(Compare, TakesParameterServers) {
  write_job(normalised_job());
  const std::string plans =
      "dp=2; ps,servers=2,workers=2; ps,servers=1,workers=2,mode=ssp,staleness=2; ps,workers=2,mode=async";
  const Json found = compare(plans, {"--steps", "12", "--rounds", "3"});
  ASSERT_EQ(found["plans"].size(), 5u);
  EXPECT_EQ(found["bn_group"], 16) << "a worker's samples";
  double most = 0;
  for (const Json& plan : found["plans"]) most = std::max(most, plan["images_per_s"].get<double>());
  for (std::size_t i = 0; i < 5; ++i) {
    const Json& plan = found["plans"][i];
    SCOPED_TRACE(plan["plan"]);
    EXPECT_EQ(plan.contains("served"), i >= 2);
    EXPECT_EQ(found["winner"] == plan["plan"], plan["images_per_s"] == most);
    EXPECT_FALSE(plan["why"].get<std::string>().empty());
    ASSERT_EQ(plan["losses"].size(), 12u);
    if (i < 2) continue;
    const Json& served = plan["served"];
    EXPECT_EQ(served["servers"], i == 2 ? 2 : 1);
    EXPECT_EQ(served["workers"], 2);
    EXPECT_NEAR(plan["step_ms"]["undivided"].get<double>(), 32e3 / plan["images_per_s"].get<double>(), 1e-6);
    for (const char* unknown : {"compute", "exposed_comm", "bubble", "input", "optimizer"})
      EXPECT_TRUE(plan["step_ms"][unknown].is_null()) << unknown;
    for (const char* unknown : {"max_grad_rel_diff", "peak_bytes", "planned_bytes", "collectives", "arithmetic"})
      EXPECT_TRUE(plan[unknown].is_null()) << unknown;
    ASSERT_EQ(plan["bytes_sent"]["worker"].size(), 2u);
    // Every gradient goes to the servers, and every parameter comes from them, once a step: 4 bytes each.
    const double parameters = found["plans"][0]["memory"][0]["parameters"]["found"];
    for (std::size_t worker = 0; worker < 2; ++worker) {
      EXPECT_GT(plan["bytes_sent"]["worker"][worker], 0.8 * parameters);
      EXPECT_GT(served["bytes_received"][worker], 0.8 * parameters);
      EXPECT_GT(served["worker_process_bytes"][worker], parameters);
    }
  }
  const Json& sync = found["plans"][2];
  EXPECT_EQ(sync["served"]["mode"], "sync");
  EXPECT_EQ(sync["served"]["max_staleness"], 0);
  EXPECT_TRUE(sync["served"]["staleness_bound"].is_null());
  EXPECT_LE(sync["max_loss_rel_diff"], 1e-5);
  const Json& ssp = found["plans"][3]["served"];
  EXPECT_EQ(ssp["mode"], "ssp");
  EXPECT_EQ(ssp["staleness_bound"], 2);
  EXPECT_LE(ssp["max_staleness"], 2);
  EXPECT_LE(ssp["mean_staleness"], ssp["max_staleness"]);
  EXPECT_EQ(found["plans"][4]["served"]["mode"], "async");
  EXPECT_GT(found["plans"][4]["max_loss_rel_diff"], 1e-5) << "every push is an update";
}

TEST_F(Compare, ShowsParameterServersAsTables) {
  write_job(small_job());
  const ProgramResult result =
      trifold({"compare", "job.json", "--plans", "ps,workers=2", "--steps", "4", "--rounds", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(says(result.err, "round 2/2:  single "));
  EXPECT_TRUE(says(result.out, "parameter servers: a step of the worker that sends most"));
  EXPECT_TRUE(says(result.out, "MB received  staleness"));
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("ms a step longer") != std::string::npos) continue;
    EXPECT_LE(line.size(), 120u) << line;
  }
}

TEST_F(Compare, RefusesWhatCannotBe) {
  write_job(small_job());
  const auto refusal = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"compare", "job.json"});
    const ProgramResult result = trifold(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_TRUE(says(refusal({"--plans", "dp=2; dp=3"}), "plan 'dp=3': "));
  EXPECT_TRUE(says(refusal({"--plans", "dp=2,micro_batch=2"}), "micro_batches"));
  EXPECT_TRUE(says(refusal({"--plans", "dp=2", "--steps", "5", "--rounds", "3"}), "--steps 6 would work"));
  EXPECT_TRUE(says(refusal({"--plans", "ps,workers=3"}), "does not divide among 3 workers"));
  EXPECT_TRUE(says(refusal({"--plans", "ps,workers=2,period=2"}), "plan 'ps,workers=2,period=2': workers that push"));
  EXPECT_TRUE(says(refusal({"--plans", "federated,clients=2"}), "a round of federated training is no step"));
  EXPECT_TRUE(says(refusal({"--plans", "ps,workers=2", "--steps", "41"}), "40 steps of the job's 2 epochs, not 41"));
  EXPECT_TRUE(says(refusal({}), "--plans is required"));
  EXPECT_FALSE(fs::exists(directory() / "runs/job-compare/compare.json"));

  fs::create_directories(directory() / "runs/job-compare");
  testing::write_file(directory() / "runs/job-compare/metrics.jsonl", "");
  EXPECT_TRUE(says(refusal({"--plans", "dp=2"}), "holds a training run"));
}

}  // namespace
}  // namespace trifold::test
