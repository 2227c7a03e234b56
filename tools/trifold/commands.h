// The commands of `trifold`, one file each. Every add_* declares its options on the app and sets its callback.
#pragma once

#include <memory>

#include <CLI/CLI.hpp>

namespace trifold {

// All of them on one app, ready to parse. Running a command is part of parsing.
std::unique_ptr<CLI::App> make_command_line();

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
