// Memory to measure kernels on: neither zeros nor denormals, which some processors are faster or slower with. It goes
// back to the system when it is given up: the heap would keep it, and a run's peak memory would show it.
#pragma once

#include "core/aligned_memory.h"

namespace trifold {

AlignedMemory dummy_memory(std::size_t bytes);  // at least 64

}  // namespace trifold
