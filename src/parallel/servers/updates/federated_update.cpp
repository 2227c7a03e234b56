// The federated servers by name.
#include <array>

#include "core/error.h"
#include "parallel/servers/updates/kinds.h"

namespace trifold {
namespace {

struct NamedServer {
  const char* name;
  std::unique_ptr<SliceUpdate> (*make)(const FederatedArgs& args);
};
constexpr std::array kServers = {NamedServer{"fedavg", make_fedavg}, NamedServer{"fedadagrad", make_fedadagrad},
                                 NamedServer{"fedadam", make_fedadam}, NamedServer{"fedyogi", make_fedyogi}};

void check_below_one(const char* name, double value) {
  if (!(value >= 0 && value < 1)) fail_input("federated {} is {}: it must be from 0 to below 1", name, value);
}

}  // namespace

std::unique_ptr<SliceUpdate> make_federated_update(const FederatedArgs& args) {
  if (!(args.rate > 0)) fail_input("federated rate is {}: it must be above 0", args.rate);
  if (!(args.tau > 0)) fail_input("federated tau is {}: it must be above 0", args.tau);
  check_below_one("momentum", args.momentum);
  check_below_one("beta1", args.beta1);
  check_below_one("beta2", args.beta2);
  for (const NamedServer& server : kServers)
    if (args.server == server.name) return server.make(args);
  std::string known;
  for (const std::string& name : federated_names()) known += (known.empty() ? "" : ", ") + name;
  fail_input("unknown federated server '{}': known are {}", args.server, known);
}

std::vector<std::string> federated_names() {
  std::vector<std::string> names;
  for (const NamedServer& server : kServers) names.emplace_back(server.name);
  return names;
}

}  // namespace trifold
