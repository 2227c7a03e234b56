// Blocks in order, and blocks by turns.
#include "ptx/grid.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>

#include "ptx/block.h"
#include "ptx/execution.h"
#include "ptx/location.h"

namespace gpusim::ptx {
namespace {

constexpr std::uint32_t kSliceInOrder = 1U << 16;
// In a cooperative grid all blocks but one may be spinning: they should not do so for long.
constexpr std::uint32_t kSliceByTurns = 1U << 10;

// Branches after which a block counts as hanging. GPUSIM_BRANCH_LIMIT is in millions.
std::uint64_t branch_limit() {
  const char* limit = std::getenv("GPUSIM_BRANCH_LIMIT");
  return (limit == nullptr ? 134 : std::strtoull(limit, nullptr, 10)) * 1'000'000;
}

RowStorage& row_storage(std::size_t block) {
  static thread_local std::deque<RowStorage> all;
  while (all.size() <= block) all.emplace_back();
  return all[block];
}

void count(const Execution& run, InstructionCounts& counts) {
  counts.warps += run.warp_instructions;
  counts.lanes += run.lane_instructions;
}

[[noreturn]] void fail_hanging(const Execution& run, const std::string& what) {
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(run.warp->alive | 0x80000000U));
  fail(run, Finding::deadlock, lane, what);
}

class SerialGrid {
 public:
  SerialGrid(PtxKernel& kernel, const Launch& launch)
      : blocks_(static_cast<std::uint32_t>(launch.grid.count())), run_(kernel, launch, row_storage(0), reported_) {}

  void run() {
    const std::uint64_t limit = branch_limit();
    run_.block_races.begin_launch(blocks_, false);
    for (std::uint32_t number = 0; number < blocks_; ++number) {
      run_.begin_block(number);
      run_.block_races.begin_turn(number);
      while (!run_round(run_, kSliceInOrder).has_ended) {
        if (run_.branches > limit)
          fail_hanging(run_, "the kernel does not end (blocks run in order: waiting for a later block hangs)");
      }
    }
  }
  void add_to(InstructionCounts& counts) const { count(run_, counts); }

 private:
  std::uint32_t blocks_;
  std::uint32_t reported_ = 0;
  Execution run_;
};

// Where cooperative_groups keeps its grid barrier: two words, the second of which is the barrier.
class GridWorkspace {
 public:
  explicit GridWorkspace(const PtxKernel& kernel) {
    if (!kernel.needs_grid_workspace) return;
    constexpr std::size_t kBytes = 8;
    auto& memory = DeviceMemory::get();
    memory_ = memory.allocate(kernel.module->device, kBytes, "the workspace of a cooperative launch");
    if (memory_ == nullptr) throw Fault{Finding::invalid_launch, "no memory for the workspace of a cooperative launch"};
    std::memset(memory.translate(address()), 0, kBytes);
    memory.mark_written(address(), kBytes);
  }
  ~GridWorkspace() {
    if (memory_ != nullptr) DeviceMemory::get().release(memory_);
  }
  GridWorkspace(const GridWorkspace&) = delete;
  GridWorkspace& operator=(const GridWorkspace&) = delete;

  Address address() const { return reinterpret_cast<Address>(memory_); }

 private:
  void* memory_ = nullptr;
};

class CooperativeGrid {
 public:
  CooperativeGrid(PtxKernel& kernel, const Launch& launch) : workspace_(kernel) {
    const auto count = static_cast<std::uint32_t>(launch.grid.count());
    for (std::uint32_t number = 0; number < count; ++number) {
      Block& block = blocks_.emplace_back(kernel, launch, row_storage(number), reported_);
      block.run.set_grid_workspace(workspace_.address());
      block.run.begin_block(number);
    }
    BlockRaces::get().begin_launch(count, true);
  }

  void run() {
    while (ended_ < blocks_.size()) {
      for (Block& block : blocks_)
        if (!block.has_ended) take_turn(block);
    }
  }
  void add_to(InstructionCounts& counts) const {
    for (const Block& block : blocks_) count(block.run, counts);
  }

 private:
  struct Block {
    Block(PtxKernel& kernel, const Launch& launch, RowStorage& storage, std::uint32_t& reported)
        : run(kernel, launch, storage, reported) {}
    Execution run;
    bool has_ended = false;
  };

  // Until the block ends, or a warp of it has used up its time: it may wait for another block.
  void take_turn(Block& block) {
    Execution& run = block.run;
    run.block_races.begin_turn(run.block_number);
    run.has_changed_memory = false;
    const std::uint64_t before = run.branches;
    Round round;
    do {
      round = run_round(run, kSliceByTurns);
    } while (!round.has_ended && !round.has_more && run.branches - before < kSliceByTurns);
    if (round.has_ended) {
      block.has_ended = true;
      ++ended_;
    }
    const bool gets_on = round.has_ended || run.has_changed_memory;
    idle_branches_ = gets_on ? 0 : idle_branches_ + run.branches - before;
    if (idle_branches_ > limit_) {
      fail_hanging(run, "the cooperative grid does not get on: " + std::to_string(ended_) + " of its " +
                            std::to_string(blocks_.size()) +
                            " blocks have ended, and none of the others ends or changes memory,");
    }
    if (!round.has_ended && run.branches > limit_) fail_hanging(run, "the block does not end,");
  }

  GridWorkspace workspace_;
  std::uint32_t reported_ = 0;
  std::deque<Block> blocks_;
  std::size_t ended_ = 0;
  std::uint64_t idle_branches_ = 0;  // of all blocks, since one of them ended or changed memory
  const std::uint64_t limit_ = branch_limit();
};

template <class Grid>
void run_and_count(Grid&& grid, InstructionCounts& counts) {
  try {
    grid.run();
  } catch (const Fault&) {
    grid.add_to(counts);
    throw;
  }
  grid.add_to(counts);
}

}  // namespace

void run_grid(PtxKernel& kernel, const Launch& launch, InstructionCounts& counts) {
  if (launch.cooperative) {
    run_and_count(CooperativeGrid(kernel, launch), counts);
  } else {
    run_and_count(SerialGrid(kernel, launch), counts);
  }
}

}  // namespace gpusim::ptx
