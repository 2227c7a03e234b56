// `trifold`: parses the command line, runs one command, and turns an error into one sentence and an exit code:
// 0 done, 1 the job failed while running, 2 the job or the command line is wrong, 3 a rank was lost.
#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "commands.h"
#include "runtime/core/error.h"
#include "runtime/core/terminal_color.h"
#include "runtime/report/version.h"

namespace {

void say_error(const char* sentence) {
  fmt::print(stderr, "{}", trifold::sentence_for_user(sentence, trifold::Tone::error));
}

}  // namespace

int main(int argc, char** argv) {
  // Standard output is for results.
  spdlog::set_default_logger(spdlog::stderr_color_mt(
      "trifold", trifold::colors_standard_error() ? spdlog::color_mode::always : spdlog::color_mode::never));
  CLI::App app{"Trifold trains a JSON-described CNN.\nStart with: trifold train models/lenet5.json"};
  app.set_version_flag("--version", fmt::format("trifold {}", trifold::version()));
  app.require_subcommand(1);
  app.get_formatter()->column_width(36);
  trifold::add_check_command(app);
  trifold::add_train_command(app);
  trifold::add_compare_command(app);
  trifold::add_profile_command(app);
  trifold::add_trace_command(app);
  trifold::add_report_command(app);
  trifold::add_eval_command(app);
  trifold::add_export_command(app);
  trifold::add_devices_command(app);
  trifold::add_audit_command(app);
  trifold::add_keys_command(app);
  trifold::add_layers_command(app);
  trifold::add_resolve_command(app);
  trifold::add_schedule_command(app);
  trifold::add_schema_command(app);
  trifold::add_server_command(app);
  trifold::add_worker_command(app);
  trifold::add_manager_command(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const trifold::Error& error) {
    if (*error.what() != '\0') say_error(error.what());  // else the world has told it
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    say_error("out of memory; make train.batch smaller");
    return 1;
  } catch (const std::exception& error) {
    say_error(error.what());
    return 1;
  }
}
