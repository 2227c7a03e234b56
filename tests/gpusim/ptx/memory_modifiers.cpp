// Modifiers of memory instructions.
#include "ptx/memory_modifiers.h"

#include <algorithm>

namespace gpusim::ptx {

MemoryModifiers take_memory_modifiers(Lowering& lowering, bool is_atomic) {
  MemoryModifiers result;
  switch (lowering.take_one_of({"global", "const", "shared", "shared::cta", "local", "param"})) {
    case 0:
      result.space = Space::global;
      break;
    case 1:
      result.space = Space::global;
      result.is_const = true;
      break;
    case 2:
    case 3:
      result.space = Space::shared;
      break;
    case 4:
      result.space = Space::local;
      break;
    case 5:
      result.space = Space::parameter;
      break;
    default:
      break;
  }
  const int order = lowering.take_one_of({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"});
  const int scope = lowering.take_one_of({"cta", "gpu", "sys", "cluster"});
  const bool beyond_block = scope != 0;
  result.strong = is_atomic || order >= 1;
  result.acquire = beyond_block && (order == 3 || order == 5 || order == 2 || order == 1);
  result.release = beyond_block && (order == 4 || order == 5);
  if (order == 6) lowering.unsupported("modifier '.mmio'");
  // Hints of caches: nothing that a program can observe.
  lowering.take_one_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  lowering.take_one_of(
      {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  lowering.take_one_of({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  lowering.take_one_of({"L2::64B", "L2::128B", "L2::256B"});
  return result;
}

void set_address(Lowering& lowering, Instruction& instruction, const MemoryArgument& address, std::size_t bytes) {
  instruction.a = address.address;
  instruction.narrow_address = address.is_narrow;
  instruction.immediate = address.offset;
  if (instruction.space == Space::shared || instruction.space == Space::generic) {
    unsigned& grain = lowering.kernel().smallest_shared_access;
    grain = std::min(grain, static_cast<unsigned>(bytes));
  }
}

}  // namespace gpusim::ptx
