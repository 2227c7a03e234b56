// The GPU that every simulated device is: compute capability 7.5 with its limits, and few multiprocessors, so that a
// grid sized by them stays small.
#pragma once

#include <cstddef>

namespace gpusim {

// 75, or as much more as the program's PTX needs; GPUSIM_COMPUTE_CAPABILITY=80 makes it another. The limits below stay.
int compute_capability();
inline constexpr int kMultiprocessors = 4;
inline constexpr int kWarpLanes = 32;
inline constexpr int kMaxThreadsPerBlock = 1024;
inline constexpr int kMaxBlockDim[3] = {1024, 1024, 64};
inline constexpr int kMaxGridDim[3] = {2147483647, 65535, 65535};
inline constexpr int kMaxThreadsPerMultiprocessor = 1024;
inline constexpr int kMaxBlocksPerMultiprocessor = 16;
inline constexpr int kRegistersPerMultiprocessor = 65536;
inline constexpr std::size_t kSharedBytesPerBlock = 48 << 10;
inline constexpr std::size_t kSharedBytesPerBlockOptIn = 64 << 10;
inline constexpr std::size_t kSharedBytesPerMultiprocessor = 64 << 10;
inline constexpr std::size_t kConstantBytes = 64 << 10;
inline constexpr int kL2Bytes = 4 << 20;
inline constexpr int kRuntimeVersion = 13000;
inline constexpr int kGreatestStreamPriority = -5;  // smaller is more urgent; the least is 0

}  // namespace gpusim
