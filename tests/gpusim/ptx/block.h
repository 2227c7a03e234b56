// One block.
#pragma once

#include "ptx/execution.h"

namespace gpusim::ptx {

struct Round {
  bool has_ended = true;  // the whole block
  bool has_more = false;  // a warp has used up its time and goes on
};

// Every warp of the block runs until it waits, ends or has taken `slice` branches; then barriers that are complete let
// go. Throws Fault.
Round run_round(Execution& run, std::uint32_t slice);

}  // namespace gpusim::ptx
