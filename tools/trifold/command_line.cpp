// The whole command line: every command with its options.
#include <fmt/format.h>

#include "commands.h"
#include "insight/report/version.h"

namespace trifold {

std::unique_ptr<CLI::App> make_command_line() {
  auto app =
      std::make_unique<CLI::App>("Trifold trains a JSON-described CNN.\nStart with: trifold train models/lenet5.json");
  app->set_version_flag("--version", fmt::format("trifold {}", version()));
  app->require_subcommand(1);
  app->get_formatter()->column_width(36);
  add_check_command(*app);
  add_train_command(*app);
  add_compare_command(*app);
  add_profile_command(*app);
  add_trace_command(*app);
  add_report_command(*app);
  add_eval_command(*app);
  add_export_command(*app);
  add_devices_command(*app);
  add_audit_command(*app);
  add_keys_command(*app);
  add_layers_command(*app);
  add_resolve_command(*app);
  add_schedule_command(*app);
  add_schema_command(*app);
  add_server_command(*app);
  add_worker_command(*app);
  add_manager_command(*app);
  return app;
}

}  // namespace trifold
