#include "job_arguments.h"

#include "parallel/servers/built.h"

namespace trifold {

void JobArguments::declare(CLI::App& command) {
  command.add_option("job_file", file, "the job file, such as models/resnet20.json")->required();
  command.add_option("--set", set, "sets a field of the job: --set train.batch=256 (may be repeated)");
  command.add_option("--plan", plan, "sets the plan: --plan dp=2,pp=2");
  command.add_option("--devices", devices,
                     "sets plan.device: --devices cpu:4 for four ranks of this machine's cores, cuda:4 for four GPUs");
  command.add_flag("--json", json, "writes JSON to standard output, for programs");
}

Job JobArguments::load() const {
  std::vector<Override> overrides;
  for (const std::string& text : set) overrides.push_back(parse_set(text));
  if (!devices.empty()) overrides.push_back(parse_set("plan.device=" + devices));
  if (!plan.empty())
    for (Override& part : parse_plan(plan)) overrides.push_back(std::move(part));
  Job job = load_job(file, overrides);
  if (job.plan.servers) require_servers(file + ": plan.sync");
  return job;
}

}  // namespace trifold
