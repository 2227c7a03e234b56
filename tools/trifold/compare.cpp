// trifold compare job.json --plans "single; dp=2; pp=2": trains the job a few steps under each plan and says which is
// fastest, where the time of the others goes, and whether all of them train the same model.
#include "insight/compare/compare.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "commands.h"
#include "core/error.h"
#include "insight/compare/report.h"
#include "insight/report/environment.h"
#include "insight/report/report.h"
#include "parallel/processes/launch.h"
#include "parallel/servers/built.h"
#include "runtime/checkpoint/atomic_file.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

struct CompareCommand {
  std::string file;
  std::vector<std::string> set;
  std::string devices;
  std::string plans;
  CompareOptions options;
  std::optional<double> tolerance;
  std::string runs = "runs";
  bool json = false;
  bool quiet = false;
  bool no_report = false;

  void run() {
    refuse_several_processes("compare");
    std::vector<Override> settings;
    for (const std::string& text : set) settings.push_back(parse_set(text));
    if (!devices.empty()) settings.push_back(parse_set("plan.device=" + devices));
    const PlanList list = load_plans(file, std::move(settings), plans);
    for (const ComparedPlan& plan : list.plans)
      if (plan.job.plan.servers) require_servers(fmt::format("plan '{}'", plan.name));
    spdlog::set_level(spdlog::level::warn);  // what there is to know of the job was said once: not again for every plan
    const Job& job = list.plans[list.single].job;
    options.folder = open_folder(job.name);
    remove_traces(options.folder);
    options.program = fs::read_symlink("/proc/self/exe");
    if (!quiet) options.on_round = [&](int round, const std::vector<double>& rates) { say(list, round, rates); };

    const Comparison found = compare(list, options);
    const std::string report = to_json_text(found);
    write_file_atomically(options.folder / "job.json", to_json_text(job));
    write_file_atomically(options.folder / "compare.json", report + "\n");
    write_environment(options.folder);
    if (!no_report) write_report_of(options.folder);
    fmt::print("{}\n", json ? report : to_text(found) + "run folder: " + options.folder.string());
    std::fflush(stdout);
    if (tolerance) assert_equal(found, *tolerance);
  }

  // A comparison replaces the one before, but no run of the same name.
  fs::path open_folder(const std::string& name) const {
    fs::path folder = fs::path(runs) / (name + "-compare");
    if (fs::exists(folder / "metrics.jsonl"))
      fail_input("'{}' holds a training run; choose another folder with --runs", folder.string());
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail_runtime("cannot create '{}': {}", folder.string(), error.message());
    return folder;
  }

  // Of the comparison before.
  static void remove_traces(const fs::path& folder) {
    std::vector<fs::path> old;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("trace-")) old.push_back(entry.path());
    for (const fs::path& file : old) fs::remove(file);
  }

  void say(const PlanList& list, int round, const std::vector<double>& rates) const {
    std::string text = fmt::format("round {}/{}:", round + 1, options.rounds);
    for (std::size_t i = 0; i < rates.size(); ++i) text += fmt::format("  {} {:.0f}", list.plans[i].name, rates[i]);
    fmt::print(stderr, "{}  images/s\n", text);
  }
};

}  // namespace

void add_compare_command(CLI::App& app) {
  auto command = std::make_shared<CompareCommand>();
  CLI::App* sub = app.add_subcommand(
      "compare",
      "measures plans side by side: trifold compare models/resnet20.json --plans \"single; dp=2; pp=2,schedule=1f1b\"");
  sub->add_option("job_file", command->file, "the job file, such as models/resnet20.json")->required();
  sub->add_option("--plans", command->plans,
                  "the plans, each as --plan takes it, with ';' between them; \"single\" is one rank and is always "
                  "there")
      ->required();
  sub->add_option("--set", command->set, "sets a field of the job: --set train.batch=256 (may be repeated)");
  sub->add_option("--devices", command->devices, "sets plan.device: cpu, or cuda for a GPU a rank");
  sub->add_option("--steps", command->options.steps, "steps of each plan (default 20)")->check(CLI::PositiveNumber);
  sub->add_option("--rounds", command->options.rounds,
                  "turns that each plan's steps are divided into, against noise (default 5)")
      ->check(CLI::PositiveNumber);
  sub->add_option("--assert-equal", command->tolerance,
                  "fails where a loss, or a gradient of step 1, is further than this from the single run's: 1e-4")
      ->check(CLI::NonNegativeNumber);
  sub->add_flag("--trace", command->options.trace,
                "writes a trace of each plan's measured steps for Perfetto; none of plans with parameter servers");
  sub->add_option("--runs", command->runs, "folder of all runs (default: runs)");
  sub->add_flag("--json", command->json, "writes JSON to standard output, for programs");
  sub->add_flag("--quiet", command->quiet, "shows no progress");
  sub->add_flag("--no-report", command->no_report, "writes no report.html");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
