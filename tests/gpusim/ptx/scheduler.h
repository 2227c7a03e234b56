// Running the warps of a block. A warp is a set of splits, (pc, lanes), of which the one with the lowest pc runs;
// splits that meet at a pc become one again. Barriers and warp-level operations make splits wait, never threads of the
// host.
#pragma once

#include "ptx/execution.h"

namespace gpusim::ptx {

// Until every split of the warp waits or has ended, or the time slice is over (a loop may wait for another warp).
// True: it still has something to run.
bool run_warp(Execution& run, Warp& warp);

// The block at hand, to its end. Throws Fault.
void run_block(Execution& run);

}  // namespace gpusim::ptx
