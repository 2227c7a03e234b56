// trifold train --restarts n --processes p: a process that trains nothing itself. It starts the job's processes, and
// starts them again from the last checkpoint when one of them is lost.
#pragma once

#include <filesystem>

#include "runtime/train/run_folder.h"

namespace trifold {

struct Supervision {
  int restarts = 0;               // at most
  int processes = 1;              // 1: all ranks are threads of it
  int ranks_each = 1;             // of a process, as messages name it
  std::filesystem::path folder;   // of the run
  RunMode mode = RunMode::fresh;  // of the first start
  bool saves_on_the_way = true;   // the job writes checkpoints before its end
};

// Returns when the job is done. The processes' command line is this one's, without --restarts and --processes. What it
// throws has no words where a process has already told the user.
void supervise(const Supervision& supervision);

}  // namespace trifold
