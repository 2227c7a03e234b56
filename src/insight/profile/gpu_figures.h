// What a GPU did for a line of a profile: its kernels one by one, and copies. On a simulated GPU kernels have counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device_activity.h"

namespace trifold {

// All launches of one kernel.
struct GpuKernel {
  std::string name = {};
  std::int64_t launches = 0;
  std::int64_t counted = 0;      // launches that have counts: not those of libraries, which are not interpreted
  std::array<int, 3> grid = {};  // of the largest launch
  std::array<int, 3> block = {};
  int registers = 0;              // a thread; 0: not known
  std::int64_t shared_bytes = 0;  // a block, at most
  double occupancy = 0;           // share of a multiprocessor's warps that can be there at once; 0: not known
  double total_ms = 0;            // measured; 0 on a simulated GPU
  LaunchCounts counts = {};

  GpuKernel& operator+=(const GpuKernel& other);
};

struct GpuFigures {
  std::vector<GpuKernel> kernels = {};  // by name
  std::int64_t copies = 0;              // and fills
  double copied_bytes = 0;

  GpuKernel& kernel(const std::string& name);
  GpuKernel all() const;  // kernels together; its occupancy is the launches' mean
  GpuFigures& operator+=(const GpuFigures& other);
};

// Of a warp's 32 lanes, in percent; 0: nothing counted.
double lane_percent(const LaunchCounts& counts);
// Sectors moved by those that the bytes asked for fill; 1 is coalesced, less where lanes read the same.
double sectors_by_ideal(const LaunchCounts& counts);

}  // namespace trifold
