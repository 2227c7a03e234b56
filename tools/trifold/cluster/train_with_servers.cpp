#include "train_with_servers.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "runtime/cluster/cluster_host.h"

namespace trifold {

TrainingOutcome train_with_servers(const Job& job, const ServersHere& here, TrainerOptions options) {
  ClusterHostOptions cluster =
      cluster_of_this_machine(job, std::filesystem::read_symlink("/proc/self/exe"), here.workers);
  cluster.replacements = here.replacements;
  if (!here.audit.empty())
    for (auto* command : {&cluster.server_command, &cluster.worker_command})
      command->insert(command->end(), {"--audit", here.audit});
  ClusterHost host(job, cluster);
  options.make_learner = [&](const Job& checked, std::shared_ptr<const Dataset> train_set) {
    return std::make_unique<ServedLearner>(checked, std::move(train_set), host);
  };
  TrainingOutcome outcome = Trainer(job, options).run();
  host.end();
  return outcome;
}

}  // namespace trifold
