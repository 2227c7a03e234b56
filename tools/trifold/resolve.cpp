// trifold resolve job.json: the job with every default filled in and every block unfolded, as a run folder keeps it.
#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "job_arguments.h"

namespace trifold {

void add_resolve_command(CLI::App& app) {
  auto job = std::make_shared<JobArguments>();
  CLI::App* sub = app.add_subcommand("resolve", "prints the job with all defaults and unfolded layers");
  job->declare(*sub);
  sub->callback([job] { fmt::print("{}\n", to_json_text(job->load())); });
}

}  // namespace trifold
