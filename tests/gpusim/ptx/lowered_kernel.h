// A kernel ready to run: its instructions and how much of everything a thread, a warp and a block need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ptx/instruction.h"
#include "ptx/module.h"

namespace gpusim {

class PtxKernel {
 public:
  PtxModule* module = nullptr;
  const ptx::Function* function = nullptr;
  std::string display_name;  // demangled, without arguments

  std::vector<ptx::Instruction> code;
  std::vector<ptx::Origin> origins;    // by instruction
  std::vector<std::uint64_t> hits;     // by instruction: how often a warp executed it, all launches
  std::vector<ptx::Operand> operands;  // lists of instructions with more than four
  std::vector<std::vector<std::uint32_t>> branch_tables;
  std::vector<std::byte> constants;  // immediates; the rows of the launch follow (see special.h)
  std::size_t register_bytes = 0;    // a warp
  std::size_t register_count = 0;
  std::uint32_t predicate_count = 1;  // a warp
  std::size_t static_shared_bytes = 0;
  std::size_t local_bytes = 0;  // a thread
  std::size_t parameter_bytes = 0;
  unsigned smallest_shared_access = 4;  // bytes, at most 4: the grain of the shared-memory shadow
  bool has_partial_barriers = false;    // barriers of some warps only
  bool needs_grid_workspace = false;    // reads its address, as cooperative_groups does
};

}  // namespace gpusim
