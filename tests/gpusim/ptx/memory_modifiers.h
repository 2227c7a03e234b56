// Modifiers that ld, st and atomics share: space, memory order, scope and cache hints.
#pragma once

#include "ptx/lowering.h"

namespace gpusim::ptx {

struct MemoryModifiers {
  Space space = Space::generic;
  bool is_const = false;
  bool strong = false;   // volatile, relaxed, acquire, release
  bool acquire = false;  // beyond the block
  bool release = false;
};
// `is_atomic`: relaxed is the default there, and every atomic is strong.
MemoryModifiers take_memory_modifiers(Lowering& lowering, bool is_atomic);

// Bits of Instruction::sub for ld and st.
inline constexpr std::uint8_t kAcquires = 1;
inline constexpr std::uint8_t kReleases = 2;

// The address operand into the instruction; narrows the grain of the shared-memory shadow where needed.
void set_address(Lowering& lowering, Instruction& instruction, const MemoryArgument& address, std::size_t bytes);

}  // namespace gpusim::ptx
