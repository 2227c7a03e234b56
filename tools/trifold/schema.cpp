// trifold schema: the JSON Schema of a job, which every build writes to models/schema.json.
#include "runtime/config/schema.h"

#include <fmt/format.h>

#include "commands.h"

namespace trifold {

void add_schema_command(CLI::App& app) {
  app.add_subcommand("schema", "writes the JSON Schema of job files")->callback([] {
    fmt::print("{}", json_schema());
  });
}

}  // namespace trifold
