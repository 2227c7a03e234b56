// One block from its first instruction to its last.
#include <bit>
#include <cstdlib>

#include "ptx/barrier.h"
#include "ptx/location.h"
#include "ptx/scheduler.h"

namespace gpusim::ptx {
namespace {

// Time slices (of 65536 branches a warp) after which a block counts as hanging: 134 million branches, or as many
// millions as GPUSIM_BRANCH_LIMIT says. Blocks run one after the other, so a block that waits for a later one never
// ends.
std::uint64_t most_slices() {
  const char* limit = std::getenv("GPUSIM_BRANCH_LIMIT");
  const std::uint64_t millions = limit == nullptr ? 134 : std::strtoull(limit, nullptr, 10);
  return millions * 1'000'000 / 65536 + 1;
}

bool can_run(const Warp& warp) {
  for (const Split& split : warp.splits)
    if (split.wait != Wait::barrier) return true;
  return false;
}

void start_warps(Execution& run) {
  for (Warp& warp : run.warps) {
    warp.alive = warp.lanes;
    warp.splits.assign(1, Split{0, warp.lanes, Wait::none, 0});
    warp.carry = 0;
    warp.copies.clear();
  }
  run.barrier_arrivals.fill(0);
}

}  // namespace

void run_block(Execution& run) {
  start_warps(run);
  std::uint64_t slices = 0;
  for (;;) {
    bool has_more = false;
    bool has_ended = true;
    for (Warp& warp : run.warps) {
      if (can_run(warp) && run_warp(run, warp)) {
        has_more = true;
        ++slices;
      }
      has_ended &= warp.alive == 0;
    }
    if (has_ended) return;
    if (has_more && slices > most_slices()) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(run.warp->alive | 0x80000000U));
      fail(run, Finding::deadlock, lane,
           "the kernel does not end (blocks run in order: waiting for a later block hangs)");
    }
    if (!release_barriers(run) && !has_more) fail_stuck_block(run);
  }
}

}  // namespace gpusim::ptx
