// trifold train job.json: trains, shows its progress, and leaves a run folder.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "commands.h"
#include "end_signals.h"
#include "job_arguments.h"
#include "live_screen.h"
#include "parallel/processes/launch.h"
#include "parallel/rank_placement.h"
#include "parallel/world.h"
#include "run_observers.h"
#include "runtime/train/parallel_plan.h"
#include "runtime/train/trainer.h"
#include "supervise.h"
#include "train_outcome.h"
#include "train_with_servers.h"

namespace trifold {
namespace {

struct TrainCommand {
  JobArguments job;
  std::string runs = "runs";
  std::string name;
  bool resume = false;
  bool force = false;
  bool quiet = false;
  bool no_report = false;
  bool live = false;
  int restarts = 0;
  int processes = 1;
  std::string audit;
  int servers = 0;
  int workers = 0;

  void run() const {
    if (restarts > 0 || processes > 1) return run_supervised();
    const std::unique_ptr<World> world = join_world();
    if (!world) return run_here(nullptr);
    if (!world->first()) spdlog::set_level(spdlog::level::warn);  // one process speaks for all
    world->run([&] { run_here(world.get()); });
  }

  // --servers and --workers are the plan's; of federated training the workers are processes, which share the clients.
  Job load() const {
    JobArguments arguments = job;
    if (servers > 0) arguments.set.push_back(fmt::format("plan.sync.servers={}", servers));
    if (workers > 0 && !job.load().plan.servers.value_or(ServerSync{}).federated)
      arguments.set.push_back(fmt::format("plan.sync.workers={}", workers));
    Job loaded = arguments.load();
    if (!audit.empty() && !loaded.plan.servers)
      fail_input("--audit logs what parameter servers do, and {} has none: set plan.sync.type=ps, or leave it out",
                 loaded.file.string());
    return loaded;
  }

  void run_cluster(const Job& loaded) const {
    if (processes > 1) fail_input("--processes are ranks of one model; with parameter servers say --workers");
    std::optional<LiveScreen> screen(std::in_place, live, end_by_signals());
    RunObservers observers = observers_with(*screen);
    const TrainingOutcome outcome = train_with_servers(
        loaded, {.workers = workers, .replacements = restarts, .audit = audit}, trainer_options(nullptr, observers));
    screen.reset();
    tell_outcome(outcome, {.json = job.json, .report = !no_report});
  }

  RunMode mode() const { return resume ? RunMode::resume : force ? RunMode::overwrite : RunMode::fresh; }

  void run_supervised() const {
    const Launch launch = find_launch([](const char* variable) -> const char* { return std::getenv(variable); });
    if (launch.size > 1)
      fail_input("--restarts and --processes start the processes themselves, but {} has started {}: start one",
                 launch.starter, launch.size);
    const Job loaded = load();
    if (loaded.plan.servers) return run_cluster(loaded);
    if (live) say_no_live("--restarts and --processes train in other processes");
    const CheckpointRules& rules = loaded.train.checkpoint;
    supervise({.restarts = restarts,
               .processes = processes,
               .ranks_each = place_ranks(mesh_of(loaded.plan), processes, "--processes").ranks_each,
               .folder = std::filesystem::path(runs) / (name.empty() ? loaded.name : name),
               .mode = mode(),
               .saves_on_the_way = rules.every_steps > 0 || rules.every_epochs > 0});
  }

  RunObservers observers_with(LiveScreen& screen) const {
    return RunObservers({.quiet = quiet, .json = job.json, .live = screen.board()});
  }

  TrainerOptions trainer_options(World* world, RunObservers& observers) const {
    TrainerOptions options;
    options.runs = runs;
    options.name = name;
    options.mode = mode();
    options.interrupt = &end_by_signals();
    options.world = world;
    options.observers = observers.all();
    return options;
  }

  void run_here(World* world) const {
    const Job loaded = load();
    if (loaded.plan.servers && world != nullptr)
      fail_input("{} has started {} processes, but a job with parameter servers starts its own: start one",
                 world->starter(), world->size());
    if (loaded.plan.servers) return run_cluster(loaded);
    // The screen goes when the run has ended or failed, before anything is said of it.
    std::optional<LiveScreen> screen(std::in_place, live && (world == nullptr || world->first()), end_by_signals());
    RunObservers observers = observers_with(*screen);
    const TrainingOutcome outcome = Trainer(loaded, trainer_options(world, observers)).run();
    screen.reset();
    if (world == nullptr || world->first()) tell_outcome(outcome, {.json = job.json, .report = !no_report});
  }
};

}  // namespace

void add_train_command(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App* sub = app.add_subcommand("train", "trains a job: trifold train models/lenet5.json --set train.epochs=3");
  command->job.declare(*sub);
  sub->add_option("--runs", command->runs, "folder of all runs (default: runs)");
  sub->add_option("--name", command->name, "name of this run (default: the job's)");
  auto* resume = sub->add_flag("--resume", command->resume, "goes on from the last good checkpoint of the run");
  sub->add_flag("--force", command->force, "replaces a run of the same name")->excludes(resume);
  auto* quiet = sub->add_flag("--quiet", command->quiet, "shows no progress");
  sub->add_flag("--live", command->live,
                "shows the run on one screen: speed, loss, what each rank or worker does; q stops it")
      ->excludes(quiet)
      ->excludes(sub->get_option("--json"));
  sub->add_flag("--no-report", command->no_report, "writes no report.html at the end");
  sub->add_option("--restarts", command->restarts,
                  "starts the job again from its last checkpoint when a process of it is lost, at most so often")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--processes", command->processes,
                  "starts so many processes here, which share the ranks (default: the ranks are threads of one)")
      ->check(CLI::PositiveNumber);
  sub->add_option("--audit", command->audit,
                  "a folder where servers and workers log what 'trifold audit' checks: nothing acknowledged is lost");
  sub->add_option("--servers", command->servers, "sets plan.sync.servers: parameter servers, started here")
      ->check(CLI::PositiveNumber);
  sub->add_option("--workers", command->workers,
                  "sets plan.sync.workers, started here; of federated training: processes, which share the clients")
      ->check(CLI::PositiveNumber);
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
