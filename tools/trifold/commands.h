// The commands of `trifold`, one file each. Every add_* declares its options on the app and sets its callback.
#pragma once

#include <CLI/CLI.hpp>

namespace trifold {

void add_check_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_devices_command(CLI::App& app);
void add_audit_command(CLI::App& app);
void add_keys_command(CLI::App& app);
void add_layers_command(CLI::App& app);
void add_resolve_command(CLI::App& app);
void add_schedule_command(CLI::App& app);
void add_schema_command(CLI::App& app);
void add_manager_command(CLI::App& app);
void add_server_command(CLI::App& app);
void add_worker_command(CLI::App& app);

}  // namespace trifold
