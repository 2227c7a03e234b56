// trifold manager: leads a job whose servers and workers are started elsewhere, until it is done.
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cluster/cluster_arguments.h"
#include "commands.h"
#include "core/counted.h"
#include "core/error.h"
#include "end_signals.h"
#include "job_arguments.h"
#include "live_screen.h"
#include "parallel/servers/registry/registry.h"
#include "run_observers.h"
#include "runtime/cluster/cluster_host.h"
#include "runtime/train/trainer.h"
#include "train_outcome.h"

namespace trifold {
namespace {

constexpr const char* kManagerAddress = "tcp://127.0.0.1:5555";

struct ManagerCommand {
  JobArguments job;
  ClusterArguments cluster;
  std::string runs = "runs";
  std::string name;
  std::string listen;
  bool resume = false;
  bool force = false;
  bool quiet = false;
  bool live = false;
  int workers = 0;

  void run() const {
    const auto place = cluster.place();
    JobArguments arguments = job;
    if (place)
      arguments.set.insert(arguments.set.end(), {fmt::format("plan.sync.servers={}", place->cluster.servers.size()),
                                                 fmt::format("plan.sync.workers={}", place->cluster.workers.size())});
    const Job loaded = arguments.load();
    if (!loaded.plan.servers) fail_input("{}: plan.sync has no servers: train needs no manager", loaded.file.string());
    ClusterHostOptions host_options{.access = cluster.access,
                                    .servers = static_cast<int>(loaded.plan.servers->servers),
                                    .workers = workers > 0 ? workers : static_cast<int>(loaded.plan.servers->shards)};
    host_options.access.manager = !listen.empty() ? listen : place ? manager_address(place->cluster) : kManagerAddress;
    const std::string& run_name = name.empty() ? loaded.name : name;
    if (host_options.access.job.empty()) host_options.access.job = run_name;
    if (host_options.access.etcd.empty()) {
      std::filesystem::create_directories(runs);
      host_options.registry_file = std::filesystem::path(runs) / (run_name + ".registry.json");
    }
    bool has_led = false;
    while (true) {
      const Ended ended = lead(loaded, host_options, run_name, has_led);
      if (ended == Ended::done) return;
      has_led = has_led || ended == Ended::lost_the_lead;
    }
  }

 private:
  enum class Ended {
    done,
    lost_the_lead,        // its lease has run out: it may stand by again
    before_it_could_lead  // the registry did not answer: it may try again
  };

  Ended lead(const Job& loaded, const ClusterHostOptions& host_options, const std::string& run_name, bool again) const {
    std::optional<LiveScreen> screen(std::in_place, live, end_by_signals());
    ClusterHost host(loaded, host_options);
    ClusterHost::Lead lead = ClusterHost::Lead::nothing;
    std::optional<TrainingState> progress;
    try {
      lead = host.stand_by(end_by_signals(), again);
      if (lead == ClusterHost::Lead::cluster) progress = host.progress();
    } catch (const Unreachable& error) {
      spdlog::warn("{}; this manager tries again", error.what());
      return Ended::before_it_could_lead;
    }
    if (lead == ClusterHost::Lead::nothing) {
      if (!quiet) fmt::print(stderr, "another manager led the job: nothing is left to do here\n");
      return Ended::done;
    }
    if (!quiet && lead == ClusterHost::Lead::new_job)
      fmt::print(stderr, "waiting for {} and {} at {}\n", counted(host_options.servers, "server"),
                 counted(host_options.workers, "worker"), host.address());
    TrainerOptions options;
    options.runs = runs;
    options.name = name;
    options.mode = resume ? RunMode::resume : force && !again ? RunMode::overwrite : RunMode::fresh;
    if (lead == ClusterHost::Lead::cluster) {
      options.takes_over = progress;
      // Lost before anything was done: the job begins again, and its folder may be there.
      const bool begins_again = force && !again;
      if (!begins_again && RunFolder::holds_run(std::filesystem::path(runs) / run_name)) options.mode = RunMode::resume;
    }
    options.interrupt = &end_by_signals();
    options.make_learner = [&](const Job& checked, std::shared_ptr<const Dataset> train_set) {
      return std::make_unique<ServedLearner>(checked, std::move(train_set), host);
    };
    TrainingOutcome outcome;
    try {
      RunObservers observers({.quiet = quiet, .json = job.json, .live = screen->board()});
      options.observers = observers.all();
      outcome = Trainer(loaded, options).run();
    } catch (const std::exception& error) {
      const bool lost = host.lost_leadership();
      host.end();  // what this manager cannot do, no other can; who waits for it may go. Unless others go on
      if (!lost) throw;
      spdlog::warn("{}; it stands by", error.what());
      return Ended::lost_the_lead;
    }
    host.end();
    screen.reset();
    tell_outcome(outcome, {.json = job.json});
    return Ended::done;
  }
};

}  // namespace

void add_manager_command(CLI::App& app) {
  const auto command = std::make_shared<ManagerCommand>();
  CLI::App* sub = app.add_subcommand("manager", "leads a job whose servers and workers are started elsewhere");
  sub->footer("Example: trifold manager job.json --listen tcp://10.0.0.1:5555 --keys keys");
  command->job.declare(*sub);
  command->cluster.declare(*sub, "manager");
  sub->add_option("--listen", command->listen,
                  fmt::format("address to listen on (default: the chief's in --cluster, or {})", kManagerAddress));
  sub->add_option("--runs", command->runs, "the folder of all runs (default: runs)");
  sub->add_option("--name", command->name, "name of this run (default: the job's)");
  auto* resume = sub->add_flag("--resume", command->resume, "goes on from the last good checkpoint of the run");
  sub->add_flag("--force", command->force, "replaces a run of the same name")->excludes(resume);
  auto* quiet = sub->add_flag("--quiet", command->quiet, "shows no progress");
  sub->add_flag("--live", command->live, "shows the run on one screen: speed, loss, what each worker does; q stops it")
      ->excludes(quiet)
      ->excludes(sub->get_option("--json"));
  sub->add_option("--workers", command->workers, "worker processes to wait for (default: one a shard)")
      ->check(CLI::PositiveNumber);
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
