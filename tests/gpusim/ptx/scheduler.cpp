// The interpreter loop.
#include "ptx/scheduler.h"

#include <algorithm>
#include <bit>
#include <map>

#include "ptx/barrier.h"
#include "ptx/lanes.h"
#include "ptx/location.h"

namespace gpusim::ptx {

namespace {

constexpr std::uint32_t kRoundsOfOneSplit = 1023;  // a mask
constexpr std::uint32_t kNoStop = ~std::uint32_t{0};

template <bool statistics>
class WarpRunner {
 public:
  WarpRunner(Execution& run, Warp& warp)
      : run_(run), warp_(warp), splits_(warp.splits), code_(run.kernel.code.data()), hits_(run.kernel.hits.data()) {}

  bool run() {
    merge();
    for (;;) {
      if (!choose()) return false;
      if (run_.slice == 0) return true;
      if (step_split()) merge();
    }
  }

 private:
  // The runnable split with the lowest pc. False: none.
  bool choose() {
    current_ = splits_.size();
    for (std::size_t at = 0; at < splits_.size(); ++at)
      if (splits_[at].wait == Wait::none && (current_ == splits_.size() || splits_[at].pc < splits_[current_].pc))
        current_ = at;
    if (current_ == splits_.size()) {
      report_stuck_lanes();
      return false;
    }
    // Lanes that spin on what others hold must not starve them.
    if ((++warp_.rounds & kRoundsOfOneSplit) == 0) {
      for (std::size_t at = 0; at < splits_.size(); ++at)
        if (splits_[at].wait == Wait::none && at != current_) {
          current_ = at;
          break;
        }
    }
    return true;
  }

  void report_stuck_lanes() {
    for (const Split& split : splits_) {
      if (split.wait != Wait::warp_sync) continue;
      run_.pc = split.pc;
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(split.mask));
      const std::uint32_t missing = members(code_[split.pc])[lane] & warp_.alive & ~split.mask;
      char masks[80];
      std::snprintf(masks, sizeof masks, "lanes 0x%08x wait for lanes 0x%08x", split.mask, missing);
      fail(run_, Finding::deadlock, lane,
           std::string("warp-level operation that can never complete: ") + masks +
               ", which wait elsewhere or never come,");
    }
  }

  Lanes<std::uint32_t> members(const Instruction& instruction) {
    return lanes_of<std::uint32_t>(run_, Operand{instruction.target});
  }

  // Runs the chosen split until it ends, waits, splits or meets another. True: splits may have to be merged.
  bool step_split() {
    pc_ = splits_[current_].pc;
    mask_ = splits_[current_].mask;
    std::uint32_t stop = kNoStop;  // where the next split is: the two are compared there
    for (std::size_t at = 0; at < splits_.size(); ++at)
      if (at != current_ && splits_[at].wait != Wait::barrier && splits_[at].pc >= pc_)
        stop = std::min(stop, splits_[at].pc);
    for (;;) {
      const Instruction& instruction = code_[pc_];
      const std::uint32_t active = mask_ & (run_.predicates[instruction.guard] ^ instruction.guard_flip);
      ++run_.warp_instructions;
      if constexpr (statistics) run_.lane_instructions += static_cast<std::uint64_t>(std::popcount(active));
      if (instruction.control == Control::none) [[likely]] {
        if (active != 0) {
          ++hits_[pc_];
          run_.pc = pc_;
          instruction.handler(run_, instruction, active);
        }
        ++pc_;
      } else if (instruction.control == Control::branch) {
        ++hits_[pc_];
        if (!branch(instruction, active)) return true;
      } else if (!control(instruction, active)) {
        return true;
      }
      if (pc_ >= stop) {
        keep();
        return true;
      }
    }
  }

  void keep() { splits_[current_] = {pc_, mask_, Wait::none, 0}; }

  // False: the split ended or the warp has to look around.
  bool branch(const Instruction& instruction, std::uint32_t taken) {
    if (taken == mask_) {
      pc_ = instruction.target;
    } else if (taken == 0) {
      ++pc_;
    } else {
      if constexpr (statistics) ++run_.statistics->divergent_branches;
      splits_[current_] = {pc_ + 1, mask_ & ~taken, Wait::none, 0};
      splits_.push_back({instruction.target, taken, Wait::none, 0});
      return false;
    }
    if (--run_.slice == 0 || splits_.size() > 1) {
      keep();
      return false;
    }
    return true;
  }

  bool control(const Instruction& instruction, std::uint32_t active) {
    if (active == 0) {
      ++pc_;
      return true;
    }
    ++hits_[pc_];
    run_.pc = pc_;
    switch (instruction.control) {
      case Control::exit:
        return leave(active);
      case Control::branch_table:
        branch_table(instruction, active);
        return false;
      case Control::barrier:
        return barrier(instruction, active);
      case Control::warp_sync:
        return warp_sync(instruction, active);
      default:
        fail(run_, Finding::invalid_call, static_cast<std::uint32_t>(std::countr_zero(active)),
             "trap (a failed check of the program, or __trap())");
    }
  }

  bool leave(std::uint32_t leaving) {
    if (!warp_.copies.pending.empty()) finish_copies(run_, warp_, leaving);
    warp_.alive &= ~leaving;
    mask_ &= ~leaving;
    ++pc_;
    // Whoever waits for the lanes that left has to look again.
    for (Split& split : splits_)
      if (split.wait == Wait::warp_sync) split.wait = Wait::none;
    if (mask_ == 0) {
      splits_.erase(splits_.begin() + static_cast<std::ptrdiff_t>(current_));
    } else {
      keep();
    }
    return false;
  }

  void branch_table(const Instruction& instruction, std::uint32_t active) {
    const auto& table = run_.kernel.branch_tables[instruction.target];
    const auto index = lanes_of<std::uint32_t>(run_, instruction.a);
    std::map<std::uint32_t, std::uint32_t> lanes_by_target;
    for_each_lane(active, [&](std::uint32_t lane) {
      if (index[lane] >= table.size()) fail(run_, Finding::out_of_bounds, lane, "branch table index out of bounds");
      lanes_by_target[table[index[lane]]] |= 1U << lane;
    });
    if (mask_ != active) lanes_by_target[pc_ + 1] |= mask_ & ~active;
    if constexpr (statistics) run_.statistics->divergent_branches += lanes_by_target.size() > 1 ? 1 : 0;
    splits_.erase(splits_.begin() + static_cast<std::ptrdiff_t>(current_));
    for (const auto& [target, lanes] : lanes_by_target) splits_.push_back({target, lanes, Wait::none, 0});
    if (run_.slice > 0) --run_.slice;
  }

  // Lanes whose guard is false go on.
  void separate(std::uint32_t active) {
    if (active != mask_) splits_.push_back({pc_ + 1, mask_ & ~active, Wait::none, 0});
    mask_ = active;
  }

  bool barrier(const Instruction& instruction, std::uint32_t active) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(active));
    const std::uint32_t id = lanes_of<std::uint32_t>(run_, instruction.a)[lane];
    if (id >= run_.barrier_arrivals.size()) fail(run_, Finding::invalid_call, lane, "barrier number above 15");
    if (instruction.sub == static_cast<std::uint8_t>(BarrierKind::arrive)) {
      run_.barrier_arrivals[id] += threads_arriving(warp_, active);
      run_.shared_races.arrive(warp_.index, id);
      ++pc_;
      return true;
    }
    separate(active);
    if (instruction.sub != static_cast<std::uint8_t>(BarrierKind::sync)) {
      warp_.barrier_predicate =
          (warp_.barrier_predicate & ~active) | (read_predicate(run_, instruction.source) & active);
    }
    splits_[current_] = {pc_, mask_, Wait::barrier, id};
    return false;
  }

  // Lanes may name different members (tiles of a warp): each group runs when it is complete.
  bool warp_sync(const Instruction& instruction, std::uint32_t active) {
    separate(active);
    for (std::size_t at = 0; at < splits_.size();) {
      if (at != current_ && splits_[at].wait == Wait::warp_sync && splits_[at].pc == pc_) {
        mask_ |= splits_[at].mask;
        splits_.erase(splits_.begin() + static_cast<std::ptrdiff_t>(at));
        if (at < current_) --current_;
      } else {
        ++at;
      }
    }
    std::uint32_t done = 0;
    std::uint32_t waiting = 0;
    const auto named = members(instruction);
    for (std::uint32_t rest = mask_; rest != 0;) {
      const std::uint32_t members_of_group = named[static_cast<std::uint32_t>(std::countr_zero(rest))];
      std::uint32_t group = 0;
      for_each_lane(rest, [&](std::uint32_t lane) {
        group |= static_cast<std::uint32_t>(named[lane] == members_of_group) << lane;
      });
      rest &= ~group;
      if ((group & ~members_of_group) != 0) {
        fail(run_, Finding::invalid_call, static_cast<std::uint32_t>(std::countr_zero(group & ~members_of_group)),
             "a lane executes a warp-level operation whose member mask does not name it");
      }
      if ((members_of_group & warp_.alive) == group) {
        ready_.push_back(group);
        done |= group;
      } else {
        waiting |= group;
      }
    }
    if (!ready_.empty()) run_.shared_races.warp_sync(warp_.index);
    for (const std::uint32_t group : ready_) instruction.handler(run_, instruction, group);
    ready_.clear();
    // Lanes that wait execute it again: it counts once.
    if constexpr (statistics) run_.lane_instructions -= static_cast<std::uint64_t>(std::popcount(waiting));
    if (done == 0) {
      --run_.warp_instructions;
      --hits_[pc_];
    }
    if (waiting == 0) {
      ++pc_;
      if (splits_.size() == 1) return true;
      keep();
      return false;
    }
    if (done == 0) {
      splits_[current_] = {pc_, waiting, Wait::warp_sync, 0};
    } else {
      splits_[current_] = {pc_ + 1, done, Wait::none, 0};
      splits_.push_back({pc_, waiting, Wait::warp_sync, 0});
    }
    return false;
  }

  void merge() {
    for (std::size_t one = 0; one < splits_.size(); ++one) {
      if (splits_[one].wait == Wait::barrier) continue;
      for (std::size_t other = one + 1; other < splits_.size();) {
        if (splits_[other].wait == Wait::barrier || splits_[other].pc != splits_[one].pc) {
          ++other;
          continue;
        }
        // A lane that comes to a warp-level operation wakes those that wait there.
        if (splits_[other].wait == Wait::none) splits_[one].wait = Wait::none;
        splits_[one].mask |= splits_[other].mask;
        splits_.erase(splits_.begin() + static_cast<std::ptrdiff_t>(other));
      }
    }
  }

  Execution& run_;
  Warp& warp_;
  std::vector<Split>& splits_;
  const Instruction* code_;
  std::uint64_t* hits_;
  std::size_t current_ = 0;
  std::uint32_t pc_ = 0;
  std::uint32_t mask_ = 0;
  std::vector<std::uint32_t> ready_;
};

}  // namespace

void end_slice(Execution& run) {
  run.slice = 1;
  run.warp->rounds |= kRoundsOfOneSplit;
}

bool run_warp(Execution& run, Warp& warp, std::uint32_t slice) {
  run.slice = slice;
  run.warp = &warp;
  run.pools[0] = warp.registers;
  run.predicates = warp.predicates;
  return run.statistics != nullptr ? WarpRunner<true>(run, warp).run() : WarpRunner<false>(run, warp).run();
}

}  // namespace gpusim::ptx
