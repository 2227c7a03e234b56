// Stands in for cluster/ in a build without parameter servers: its commands say how to get them.
#include <string>

#include "commands.h"
#include "parallel/servers/built.h"
#include "train_with_servers.h"

namespace trifold {
namespace {

void add_missing_command(CLI::App& app, const std::string& name) {
  CLI::App* sub = app.add_subcommand(name, "needs parameter servers, which this build does not have");
  sub->prefix_command();  // whatever follows
  sub->callback([name] { require_servers("trifold " + name); });
}

}  // namespace

void add_audit_command(CLI::App& app) {
  add_missing_command(app, "audit");
}
void add_keys_command(CLI::App& app) {
  add_missing_command(app, "keys");
}
void add_manager_command(CLI::App& app) {
  add_missing_command(app, "manager");
}
void add_server_command(CLI::App& app) {
  add_missing_command(app, "server");
}
void add_worker_command(CLI::App& app) {
  add_missing_command(app, "worker");
}

TrainingOutcome train_with_servers(const Job& job, const ServersHere& /*here*/, TrainerOptions /*options*/) {
  require_servers(job.file.string());
  return {};
}

}  // namespace trifold
