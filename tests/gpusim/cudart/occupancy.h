// How many blocks of a kernel a device holds at once.
#pragma once

#include <cstddef>

#include "ptx/kernel.h"

namespace gpusim {

// 0: not even one fits.
int blocks_per_multiprocessor(const KernelResources& resources, int block_threads, std::size_t dynamic_bytes);

}  // namespace gpusim
