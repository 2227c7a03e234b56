// Barriers of a block.
#include "ptx/barrier.h"

#include <bit>
#include <string>

#include "ptx/lanes.h"
#include "ptx/location.h"

namespace gpusim::ptx {
namespace {

// The splits that wait for one barrier.
struct Meeting {
  std::uint32_t threads = 0;  // that wait
  std::uint32_t counted = 0;  // with whole warps and arrivals, for a barrier with a count
  std::uint32_t wanted = 0;   // 0: all of the block
  const Split* first = nullptr;
  Warp* first_warp = nullptr;
  const Split* elsewhere = nullptr;  // waits for the same barrier at another source line
  std::uint32_t ayes = 0;            // of bar.red
  std::uint32_t warps = 0;           // that wait, a bit each
};

void go_to(Execution& run, Warp& warp, std::uint32_t pc) {
  run.warp = &warp;
  run.pools[0] = warp.registers;
  run.predicates = warp.predicates;
  run.pc = pc;
}

bool is_same_place(const PtxKernel& kernel, std::uint32_t one, std::uint32_t other) {
  const SourceLine& a = kernel.origins[one].source;
  const SourceLine& b = kernel.origins[other].source;
  return one == other || (a.line != 0 && a.line == b.line && a.file == b.file);
}

Meeting gather(Execution& run, std::uint32_t id) {
  Meeting meeting;
  meeting.counted = run.barrier_arrivals[id];
  for (Warp& warp : run.warps) {
    for (const Split& split : warp.splits) {
      if (split.wait != Wait::barrier || split.barrier != id) continue;
      meeting.threads += static_cast<std::uint32_t>(std::popcount(split.mask));
      meeting.warps |= 1U << warp.index;
      meeting.counted += threads_arriving(warp, split.mask);
      meeting.ayes += static_cast<std::uint32_t>(std::popcount(warp.barrier_predicate & split.mask));
      const Instruction& instruction = run.kernel.code[split.pc];
      if (instruction.b.exists()) {
        go_to(run, warp, split.pc);
        meeting.wanted =
            lanes_of<std::uint32_t>(run, instruction.b)[static_cast<std::uint32_t>(std::countr_zero(split.mask))];
      }
      if (meeting.first == nullptr) {
        meeting.first = &split;
        meeting.first_warp = &warp;
      } else if (!is_same_place(run.kernel, meeting.first->pc, split.pc)) {
        meeting.elsewhere = &split;
      }
    }
  }
  return meeting;
}

std::uint32_t live_threads(const Execution& run) {
  std::uint32_t count = 0;
  for (const Warp& warp : run.warps) count += static_cast<std::uint32_t>(std::popcount(warp.alive));
  return count;
}

[[noreturn]] void fail_divergent(Execution& run, const Meeting& meeting, const std::string& what) {
  go_to(run, *meeting.first_warp, meeting.first->pc);
  fail(run, Finding::divergent_barrier, static_cast<std::uint32_t>(std::countr_zero(meeting.first->mask)),
       "divergent barrier: " + what);
}

void let_go(Execution& run, std::uint32_t id, const Meeting& meeting) {
  for (Warp& warp : run.warps) {
    for (Split& split : warp.splits) {
      if (split.wait != Wait::barrier || split.barrier != id) continue;
      go_to(run, warp, split.pc);
      const Instruction& instruction = run.kernel.code[split.pc];
      switch (static_cast<BarrierKind>(instruction.sub)) {
        case BarrierKind::count:
          write_lanes<std::uint32_t>(run, instruction.d, split.mask, [&](std::uint32_t) { return meeting.ayes; });
          break;
        case BarrierKind::all:
          write_predicate(run, instruction.p, meeting.ayes == meeting.threads ? kAllLanes : 0U, split.mask);
          break;
        case BarrierKind::any:
          write_predicate(run, instruction.p, meeting.ayes != 0 ? kAllLanes : 0U, split.mask);
          break;
        default:
          break;
      }
      split.wait = Wait::none;
      ++split.pc;
    }
  }
  run.barrier_arrivals[id] = 0;
}

}  // namespace

std::uint32_t threads_arriving(const Warp& warp, std::uint32_t lanes) {
  return lanes == warp.alive ? kLanes : static_cast<std::uint32_t>(std::popcount(lanes));
}

bool release_barriers(Execution& run) {
  bool released = false;
  const std::uint32_t live = live_threads(run);
  for (std::uint32_t id = 0; id < run.barrier_arrivals.size(); ++id) {
    const Meeting meeting = gather(run, id);
    if (meeting.first == nullptr) continue;
    const bool is_complete = meeting.wanted == 0 ? meeting.threads == live : meeting.counted >= meeting.wanted;
    if (!is_complete) continue;
    if (meeting.wanted == 0 && live != run.thread_count) {
      fail_divergent(run, meeting,
                     std::to_string(run.thread_count - live) + " of the block's " + std::to_string(run.thread_count) +
                         " threads have ended before __syncthreads()");
    }
    if (meeting.wanted == 0 && meeting.elsewhere != nullptr) {
      fail_divergent(run, meeting,
                     "threads of one block meet in different __syncthreads(), the other at " +
                         source_of(run.kernel, meeting.elsewhere->pc) + ",");
    }
    let_go(run, id, meeting);
    run.shared_races.barrier(meeting.warps, id, meeting.threads == run.thread_count);
    released = true;
  }
  return released;
}

void fail_stuck_block(Execution& run) {
  for (std::uint32_t id = 0; id < run.barrier_arrivals.size(); ++id) {
    const Meeting meeting = gather(run, id);
    if (meeting.first == nullptr) continue;
    const std::string wanted =
        meeting.wanted == 0 ? std::to_string(live_threads(run)) + " live" : std::to_string(meeting.wanted) + " wanted";
    fail_divergent(run, meeting,
                   std::to_string(meeting.threads) + " of " + wanted + " threads wait for barrier " +
                       std::to_string(id) + "; the others wait elsewhere and never come");
  }
  run.pc = 0;
  fail(run, Finding::deadlock, 0, "the block cannot go on");
}

}  // namespace gpusim::ptx
