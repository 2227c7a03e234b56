// What GpusimLaunch counts beside instructions: bytes, sectors and bank conflicts of a warp's memory access.
#pragma once

#include <cstddef>
#include <cstdint>

#include "include/gpusim.h"
#include "ptx/memory_access.h"

namespace gpusim::ptx {

struct WarpAccess {
  Space space;
  const LaneAddresses& addresses;
  std::uint32_t mask;
  std::size_t bytes;  // a lane
  bool is_write;
};
// Global memory: bytes and 32-byte sectors. Shared memory: accesses and bank conflicts; accesses of 8 and 16 bytes are
// served for half and quarter warps at a time, as on the hardware. Local and parameter memory are not counted.
void count_access(GpusimLaunch& launch, const WarpAccess& access);

// One for each active lane of an atomic, whatever memory it is on.
void count_atomics(GpusimLaunch& launch, std::uint32_t mask);

}  // namespace gpusim::ptx
