// The blocks of a launch. They run one after the other, except in a cooperative launch: there they may wait for each
// other, so all are there at once and take turns.
#pragma once

#include <cstdint>

#include "ptx/lowered_kernel.h"

namespace gpusim::ptx {

struct InstructionCounts {
  std::uint64_t warps = 0;
  std::uint64_t lanes = 0;  // only with statistics
};

// All blocks, to their end. Throws Fault; `counts` is then what ran until there.
void run_grid(PtxKernel& kernel, const Launch& launch, InstructionCounts& counts);

}  // namespace gpusim::ptx
