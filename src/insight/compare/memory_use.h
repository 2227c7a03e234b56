// A rank's memory by what it holds: as the compiler planned it for training steps, which are all that compare does, and
// as it was found. (Evaluation, where it needs more of a region, is in what `check` says.)
#pragma once

#include <array>

#include "runtime/train/parallel_model.h"

namespace trifold {

struct MemoryUse {
  std::array<std::size_t, kRegions> planned = {};
  std::array<std::size_t, kRegions> found = {};  // touched, which memory of the host must be to be taken

  std::size_t planned_bytes() const;
  std::size_t found_bytes() const;
};

MemoryUse memory_use(const ParallelModel& model, int rank);

}  // namespace trifold
