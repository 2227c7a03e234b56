// trifold export job.json --out model.safetensors: the trained parameters alone, for other programs.
#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "job_arguments.h"
#include "runtime/checkpoint/checkpoint.h"
#include "saved_model.h"

namespace trifold {
namespace {

struct ExportCommand {
  JobArguments job;
  SavedModel saved;
  std::string out;

  void run() const {
    const Job loaded = job.load();
    const SafetensorsFile file = saved.open(loaded);
    export_model(out, file.tensors(), loaded.train.checkpoint.shard_bytes);
    if (!job.json)
      fmt::print("wrote {}\n", out);
    else
      fmt::print("{{\"event\": \"done\"}}\n");
  }
};

}  // namespace

void add_export_command(CLI::App& app) {
  auto command = std::make_shared<ExportCommand>();
  CLI::App* sub = app.add_subcommand(
      "export", "writes plain safetensors: trifold export models/lenet5.json --out lenet5.safetensors");
  command->job.declare(*sub);
  command->saved.declare(*sub);
  sub->add_option("--out", command->out, "the file to write")->required();
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
