// trifold server: a parameter server, until its job is over.
#include <memory>

#include <spdlog/spdlog.h>

#include "cluster/cluster_arguments.h"
#include "commands.h"
#include "end_signals.h"
#include "runtime/cluster/server_process.h"

namespace trifold {
namespace {

struct ServerCommand {
  ClusterArguments cluster;
  std::string listen;
  std::string audit;
  bool quiet = false;

  void run() const {
    if (quiet) spdlog::set_level(spdlog::level::warn);
    const auto place = cluster.place();
    ServerProcessOptions options{.access = cluster.find(place), .audit = audit, .interrupt = &end_by_signals()};
    if (!listen.empty())
      options.listen = listen;
    else if (place)
      options.listen = place->address();
    run_server(options);
  }
};

}  // namespace

void add_server_command(CLI::App& app) {
  const auto command = std::make_shared<ServerCommand>();
  CLI::App* sub = app.add_subcommand("server", "serves parameters to the workers of a job");
  sub->footer(
      "Example: trifold server --manager tcp://10.0.0.1:5555 --listen 'tcp://10.0.0.2:*' --keys keys --as server1");
  command->cluster.declare(*sub, "server");
  sub->add_option("--listen", command->listen,
                  "address to listen on, port * for any free one (default: its own in --cluster, or "
                  "tcp://127.0.0.1:*)");
  sub->add_option("--audit", command->audit, "a folder for a log that 'trifold audit' checks");
  sub->add_flag("--quiet", command->quiet, "says only what is wrong");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
