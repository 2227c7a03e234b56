// The trained parameters that a command reads: --checkpoint FILE, or the last good checkpoint of --run FOLDER.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/config/job.h"

namespace trifold {

struct SavedModel {
  std::string checkpoint;
  std::string run;

  void declare(CLI::App& command);
  // Neither given: the run of the job's name in runs/. Damaged checkpoints of a run are named on standard error and
  // passed over; a damaged --checkpoint is an error.
  SafetensorsFile open(const Job& job) const;
};

}  // namespace trifold
