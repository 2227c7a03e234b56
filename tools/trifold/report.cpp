// trifold report runs/demo: one HTML file that shows what run folders hold, readable anywhere without a network.
#include "insight/report/report.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "commands.h"

namespace trifold {
namespace {

struct ReportCommand {
  std::vector<std::filesystem::path> runs;
  std::filesystem::path out;

  void run() const {
    const std::filesystem::path target = out.empty() ? runs.front() / "report.html" : out;
    write_report(runs, target);
    fmt::print("{}\n", target.string());
  }
};

}  // namespace

void add_report_command(CLI::App& app) {
  auto command = std::make_shared<ReportCommand>();
  CLI::App* sub = app.add_subcommand(
      "report", "draws what runs left behind, as one HTML file: trifold report runs/demo runs/tutorial-compare");
  sub->add_option("runs", command->runs, "run folders, such as runs/demo; several share a page")->required();
  sub->add_option("--out", command->out, "the file to write (default: report.html in the first folder)");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
