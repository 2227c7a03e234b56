// assert() in a kernel: the call to __assertfail.
#pragma once

#include "ptx/instruction.h"

namespace gpusim::ptx {

// Ends the kernel with the message; `immediate` is the local address of the pointer to it.
void fail_assertion(Execution& run, const Instruction& instruction, std::uint32_t mask);

}  // namespace gpusim::ptx
