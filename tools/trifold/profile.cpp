// trifold profile job.json: trains a few steps and says where the time goes, kernel by kernel, against what this
// machine can do.
#include "insight/profile/profile.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "commands.h"
#include "core/error.h"
#include "insight/report/environment.h"
#include "insight/report/report.h"
#include "job_arguments.h"
#include "parallel/world.h"
#include "runtime/checkpoint/atomic_file.h"
#include "runtime/train/device_choice.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

struct ProfileCommand {
  JobArguments job;
  ProfileOptions options;
  ProfileTable table;
  std::string runs = "runs";
  std::string csv;
  bool no_trace = false;
  bool no_report = false;

  void run() {
    const std::unique_ptr<World> world = join_world();
    if (!world) return run_here(nullptr);
    if (!world->first()) spdlog::set_level(spdlog::level::warn);  // one process speaks for all
    world->run([&] { run_here(world.get()); });
  }

  void run_here(const World* world) {
    const Job loaded = job.load();
    const bool gpus = chooses_gpus(loaded.plan.device);
    if (!gpus && (table.group == ProfileGroup::launch || !options.gpu.empty()))
      fail_input(
          "--gpu and --group launch are for ranks that are GPUs, but these are the CPU's; --devices cuda names GPUs");
    if (gpus && options.alone) fail_input("--alone runs kernels of the CPU; leave it out, or use --devices cpu");
    if (gpus && table.group == ProfileGroup::micro_batch)
      fail_input("--group micro-batch is for ranks on the CPU: of GPUs --group launch shows the kernels");
    if (gpus && world != nullptr) fail_input("profile takes the GPUs of one process; start it without mpirun");
    options.world = world;
    if (world == nullptr || world->first()) return write(loaded);
    if (!no_trace) options.trace = "trace.json";  // process 0 writes it
    profile(loaded, options);
  }

  void write(const Job& loaded) {
    const fs::path folder = fs::path(runs) / (loaded.name + "-profile");
    if (fs::exists(folder / "metrics.jsonl"))
      fail_input("'{}' holds a training run; choose another folder with --runs", folder.string());
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail_runtime("cannot create '{}': {}", folder.string(), error.message());
    if (!no_trace) options.trace = folder / "trace.json";

    const Profile found = profile(loaded, options);
    const std::string json = to_json_text(found);
    write_file_atomically(folder / "job.json", to_json_text(loaded));
    write_file_atomically(folder / "profile.json", json + "\n");
    write_environment(folder);
    if (!no_report) write_report_of(folder);
    if (!csv.empty()) write_file_atomically(csv, to_csv_text(found));
    fmt::print("{}\n", job.json ? json : to_text(found, table) + "run folder: " + folder.string());
    std::fflush(stdout);
  }
};

}  // namespace

void add_profile_command(CLI::App& app) {
  static const std::map<std::string, ProfileGroup> kGroups = {
      {"none", ProfileGroup::none},    {"kernel", ProfileGroup::kernel}, {"layer", ProfileGroup::layer},
      {"phase", ProfileGroup::phase},  {"rank", ProfileGroup::rank},     {"micro-batch", ProfileGroup::micro_batch},
      {"launch", ProfileGroup::launch}};
  static const std::map<std::string, ProfileSort> kSorts = {
      {"total", ProfileSort::total}, {"calls", ProfileSort::calls}, {"mean", ProfileSort::mean},
      {"flops", ProfileSort::flops}, {"bytes", ProfileSort::bytes}, {"gflops", ProfileSort::gflops},
      {"gbps", ProfileSort::gbps},   {"roof", ProfileSort::roof}};
  auto command = std::make_shared<ProfileCommand>();
  CLI::App* sub = app.add_subcommand(
      "profile", "says where the time goes, kernel by kernel: trifold profile models/resnet20.json --group layer");
  command->job.declare(*sub);
  sub->add_option("--steps", command->options.steps, "steps that are measured (default 20)")
      ->check(CLI::PositiveNumber);
  sub->add_option("--warmup", command->options.warmup, "steps before them (default 3)")->check(CLI::NonNegativeNumber);
  sub->add_option_function<std::string>(
         "--group", [command](const std::string& name) { command->table.group = kGroups.at(name); },
         "what a line is: kernel (default), layer, phase, rank, none; of the CPU also micro-batch, of GPUs also launch")
      ->check(CLI::IsMember(kGroups).description(""))
      ->type_name("NAME");
  sub->add_option_function<std::string>(
         "--sort", [command](const std::string& name) { command->table.sort = kSorts.at(name); },
         "total (default), calls, mean, flops, bytes, gflops, gbps, roof (furthest from it first)")
      ->check(CLI::IsMember(kSorts).description(""))
      ->type_name("NAME");
  sub->add_option("--top", command->table.top, "lines to show (default 25; 0: all)")->check(CLI::NonNegativeNumber);
  sub->add_flag("--alone", command->options.alone,
                "also runs every convolution and matrix product by itself, to compare with the step's");
  sub->add_option("--csv", command->csv, "also writes every line to this file");
  sub->add_option("--gpu", command->options.gpu,
                  "whose data sheet GPUs are held against, and simulated ones estimated by: t4, a10, a100, l4, l40s, "
                  "rtx4090, h100 (default: the GPU itself; of simulated ones a100)");
  sub->add_flag("--no-trace", command->no_trace, "writes no trace.json");
  sub->add_flag("--no-report", command->no_report, "writes no report.html");
  sub->add_option("--runs", command->runs, "folder of all runs (default: runs)");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
