// The kinds of block barriers, and when one is complete.
#pragma once

#include <cstdint>

namespace gpusim::ptx {

struct Execution;
struct Warp;

enum class BarrierKind : std::uint8_t { sync, arrive, count, all, any };

// Barriers with a thread count count whole warps: a warp whose live lanes have all come counts as 32 threads.
std::uint32_t threads_arriving(const Warp& warp, std::uint32_t lanes);

// Lets the splits go on whose barrier is complete. False: no barrier was. Throws Fault for a divergent one.
bool release_barriers(Execution& run);

// Nothing in the block can run and it has not ended: says why. Throws Fault.
[[noreturn]] void fail_stuck_block(Execution& run);

}  // namespace gpusim::ptx
