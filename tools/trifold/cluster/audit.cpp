// trifold audit FOLDER: proves, from what the members of a cluster have written with --audit, that nothing which was
// acknowledged is lost.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/error.h"
#include "parallel/servers/audit/audit_check.h"

namespace trifold {
namespace {

struct AuditCommand {
  std::string folder;
  bool json = false;

  void run() const {
    const AuditResult result = check_audit(read_audit(folder));
    const auto faults = static_cast<std::int64_t>(result.faults.size()) + result.more_faults;
    if (json) {
      const nlohmann::json line = {{"members", result.members},
                                   {"slices", result.slices},
                                   {"versions", result.versions},
                                   {"owners", result.owners},
                                   {"acknowledged", result.acknowledged},
                                   {"late", result.late},
                                   {"faults", faults},
                                   {"first_faults", result.faults}};
      fmt::print("{}\n", line.dump());
    } else {
      for (const std::string& fault : result.faults) fmt::print("{}\n", fault);
      if (result.more_faults > 0) fmt::print(".. and {} more\n", result.more_faults);
      fmt::print("{} slices came through {} versions and {} owners, by {} members' logs\n", result.slices,
                 result.versions, result.owners, result.members);
      fmt::print("{} acknowledged pushes of slices{}: {}\n", result.acknowledged,
                 result.late > 0 ? fmt::format(" (and {} that came late, and were not needed)", result.late) : "",
                 faults == 0 ? "each is in the model once" : "not proved to be in the model once");
    }
    if (faults > 0) fail_runtime("the audit found {} fault{}", faults, faults == 1 ? "" : "s");
  }
};

}  // namespace

void add_audit_command(CLI::App& app) {
  const auto command = std::make_shared<AuditCommand>();
  CLI::App* sub = app.add_subcommand("audit", "proves that no acknowledged push of a job with servers was lost");
  sub->footer("Example: trifold train job.json --plan ps,servers=2,workers=4 --audit logs && trifold audit logs");
  sub->add_option("folder", command->folder, "where servers and workers wrote their logs, with --audit")->required();
  sub->add_flag("--json", command->json, "prints one JSON line");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
