// trifold worker: computes on some shards of a job's data, until the job is over.
#include <memory>

#include <spdlog/spdlog.h>

#include "cluster/cluster_arguments.h"
#include "commands.h"
#include "end_signals.h"
#include "runtime/cluster/worker_process.h"

namespace trifold {
namespace {

struct WorkerCommand {
  ClusterArguments cluster;
  std::vector<std::string> set;
  std::string host;
  std::string audit;
  bool quiet = false;

  void run() const {
    if (quiet) spdlog::set_level(spdlog::level::warn);
    run_worker_process({.access = cluster.find(cluster.place()),
                        .set = set,
                        .host = host,
                        .audit = audit,
                        .interrupt = &end_by_signals()});
  }
};

}  // namespace

void add_worker_command(CLI::App& app) {
  const auto command = std::make_shared<WorkerCommand>();
  CLI::App* sub = app.add_subcommand("worker", "trains on some shards of a job's data");
  sub->footer(
      "Example: trifold worker --manager tcp://10.0.0.1:5555 --set data.path=/data/mnist --keys keys --as worker1");
  command->cluster.declare(*sub, "worker");
  sub->add_option("--set", command->set, "changes a field of the job for this worker: data.path=/data/mnist");
  sub->add_option("--host", command->host,
                  "with plan.sync.combine: workers that say the same are on one machine (default: as it is known)");
  sub->add_option("--audit", command->audit, "a folder for a log that 'trifold audit' checks");
  sub->add_flag("--quiet", command->quiet, "says only what is wrong");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
