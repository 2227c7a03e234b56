// What every command that takes a job understands: the file, --set, --plan, --devices, --json.
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
  std::string devices;
  bool json = false;

  void declare(CLI::App& command);
  Job load() const;
};

}  // namespace trifold
