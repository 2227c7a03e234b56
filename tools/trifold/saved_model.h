// Which file of trained parameters a command reads: --checkpoint FILE, or the last good checkpoint of --run FOLDER.
#pragma once

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/config/job.h"

namespace trifold {

struct SavedModel {
  std::string checkpoint;
  std::string run;

  void declare(CLI::App& command);
  // Neither given: the run of the job's name in runs/. Damaged checkpoints are named on standard error and passed over.
  std::filesystem::path file(const Job& job) const;
};

}  // namespace trifold
