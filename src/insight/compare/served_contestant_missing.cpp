// Stands in for served_contestant.cpp in a build without parameter servers.
#include "insight/compare/served_contestant.h"
#include "parallel/servers/built.h"

namespace trifold {

std::unique_ptr<Contestant> make_served_contestant(ServedContestantArgs args) {
  require_servers("plan '" + args.plan.name + "'");
  return nullptr;
}

}  // namespace trifold
