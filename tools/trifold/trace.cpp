// trifold trace runs/demo-profile: reads a trace back and says what the steps in it were spent on.
#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "core/error.h"
#include "insight/trace/trace_reader.h"

namespace trifold {
namespace {

struct TraceCommand {
  std::filesystem::path run_or_file;
  bool json = false;

  void run() const {
    const std::string file = find_trace(run_or_file).string();
    const TraceSummary found = read_trace(std::filesystem::path(file));
    fmt::print("{}", json ? to_json_text(found, file) + "\n" : to_text(found, file));
    std::fflush(stdout);
    if (!found.fault.empty()) fail_runtime("'{}' {}; what is shown is of the part before that", file, found.fault);
  }
};

}  // namespace

void add_trace_command(CLI::App& app) {
  auto command = std::make_shared<TraceCommand>();
  CLI::App* sub = app.add_subcommand(
      "trace", "says what the steps of a trace were spent on, rank by rank: trifold trace runs/resnet20-profile");
  sub->add_option("trace", command->run_or_file, "a run folder, or a trace.json of one")->required();
  sub->add_flag("--json", command->json, "writes JSON to standard output, for programs");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
