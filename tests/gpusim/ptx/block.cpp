// The warps of a block, round by round.
#include "ptx/block.h"

#include "ptx/barrier.h"
#include "ptx/scheduler.h"

namespace gpusim::ptx {
namespace {

// What a round counts when no warp uses up its slice: a loop around a barrier may be endless too.
constexpr std::uint32_t kBranchesOfARound = 64;

bool can_run(const Warp& warp) {
  for (const Split& split : warp.splits)
    if (split.wait != Wait::barrier) return true;
  return false;
}

}  // namespace

Round run_round(Execution& run, std::uint32_t slice) {
  Round round;
  for (Warp& warp : run.warps) {
    if (can_run(warp) && run_warp(run, warp, slice)) {
      round.has_more = true;
      run.branches += slice;
    }
    round.has_ended &= warp.alive == 0;
  }
  run.branches += kBranchesOfARound;
  if (!round.has_ended && !release_barriers(run) && !round.has_more) fail_stuck_block(run);
  return round;
}

}  // namespace gpusim::ptx
