// Running the warps of a block. A warp is a set of splits, (pc, lanes), of which the one with the lowest pc runs;
// splits that meet at a pc become one again. Barriers and warp-level operations make splits wait, never threads of the
// host.
#pragma once

#include "ptx/execution.h"

namespace gpusim::ptx {

// Until every split of the warp waits or has ended, or the time slice is over (a loop may wait for another warp): that
// many branches, or a nanosleep. True: it still has something to run.
bool run_warp(Execution& run, Warp& warp, std::uint32_t slice);

// The warp at hand sleeps: its slice is over at its next branch, and another of its splits goes first then.
void end_slice(Execution& run);

}  // namespace gpusim::ptx
