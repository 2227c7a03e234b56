// What every command that takes a job understands: the file, --set, --plan, --json.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/config/job.h"

namespace trifold {

struct JobArguments {
  std::string file;
  std::vector<std::string> set;
  std::string plan;
  bool json = false;

  void declare(CLI::App& command);
  Job load() const;
};

}  // namespace trifold
