// The state of a block while it runs: its warps with their splits, and the current place. The blocks of a launch use
// one after the other, or have one each and take turns. Handlers get it by reference; everything in it is used by one
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/report.h"
#include "ptx/async_copy.h"
#include "ptx/block_races.h"
#include "ptx/kernel.h"
#include "ptx/lowered_kernel.h"
#include "ptx/shared_races.h"
#include "ptx/special.h"

namespace gpusim::ptx {

enum class Wait : std::uint8_t { none, barrier, warp_sync };

// Lanes of a warp that are at the same instruction.
struct Split {
  std::uint32_t pc = 0;
  std::uint32_t mask = 0;
  Wait wait = Wait::none;
  std::uint32_t barrier = 0;  // which one, while it waits for it
};

struct Warp {
  std::uint32_t index = 0;
  std::uint32_t lanes = 0;  // those that exist: the last warp of a block may have fewer
  std::uint32_t alive = 0;  // of those, not exited
  std::vector<Split> splits;
  std::byte* registers = nullptr;
  std::uint32_t* predicates = nullptr;
  std::uint32_t carry = 0;              // condition code of add.cc and the like
  std::uint32_t barrier_predicate = 0;  // of bar.red
  std::uint32_t rounds = 0;             // how often a split was chosen to run
  AsyncCopies copies;
};

// Registers and constants. Their rows must be aligned for the host's vectors. Kept between launches: most are short.
struct RowStorage {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> constants;
  std::vector<Line> registers;
};

struct Execution {
  // `reported`: findings already reported in this launch, a bit each.
  Execution(PtxKernel& the_kernel, const Launch& the_launch, RowStorage& storage, std::uint32_t& reported);
  void set_grid_workspace(Address address);  // of a cooperative launch; 0: none
  void begin_block(std::uint32_t number);

  PtxKernel& kernel;
  const Launch& launch;
  DeviceMemory& memory;
  std::uint32_t thread_count = 0;  // of a block
  std::uint32_t block_number = 0;

  std::array<std::byte*, 2> pools{};  // registers of the warp at hand, constants
  std::uint32_t* predicates = nullptr;
  Warp* warp = nullptr;
  std::uint32_t pc = 0;
  std::uint64_t warp_instructions = 0;
  std::uint64_t lane_instructions = 0;
  std::uint32_t slice = 0;          // branches that the warp at hand may take before others have their turn
  std::uint64_t branches = 0;       // of the block so far, in whole slices
  bool has_changed_memory = false;  // global memory; whoever looks at it clears it

  std::vector<Warp> warps;
  std::vector<std::byte> shared;
  std::vector<std::byte> local;
  std::size_t shared_bytes = 0;
  std::array<std::uint32_t, 16> barrier_arrivals{};  // threads of bar.arrive, by barrier
  SharedRaces shared_races;
  BlockRaces& block_races;
  bool has_operation = false;  // the launch is an operation of a stream
  std::uint32_t& reported;
  GpusimLaunch* statistics = nullptr;

 private:
  std::vector<std::uint32_t> predicate_file_;
};

// Ends the kernel; run_kernel reports it.
struct Fault {
  Finding finding;
  std::string text;
};

}  // namespace gpusim::ptx
