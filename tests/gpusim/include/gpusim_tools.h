// What the simulator counts, for tools that read CUPTI's kernel records: looked up in the stand-in libcudart by its
// name, so that a tool needs nothing of the simulator and, on a real GPU, finds nothing.
#pragma once

#include <cstdint>

extern "C" {

// The figures of the launch that a record's gridId names, which are then forgotten. In this order: warp instructions,
// lane instructions, bytes read and written in global memory, sectors read and written, accesses to shared memory,
// conflicts there, atomics, divergent branches (gpusim.h says what they are). Returns how many figures there are, of
// which it copies at most `capacity`; 0: nothing is known of that launch. Libraries' kernels are not interpreted, so
// they have none.
int gpusim_launch_counters(std::int64_t grid_id, std::uint64_t* figures, int capacity);
}
