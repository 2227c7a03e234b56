// The two ways to note what GPUs do: CUPTI's activity records, which see every kernel, and CUDA events around tagged
// work, where CUPTI is absent or refuses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/cuda/cuda_device.h"
#include "core/device_activity.h"

namespace trifold::cuda {

// Null, with the reason, where CUPTI cannot be used. TRIFOLD_CUPTI names the library to load, if it is not the one that
// comes with the runtime.
std::unique_ptr<ActivityRecorder> make_cupti_recorder(std::vector<CudaDevice*> devices, std::string* why_not);

// `why`: not CUPTI, for why_not().
std::unique_ptr<ActivityRecorder> make_event_recorder(std::vector<CudaDevice*> devices, std::string why);

// By CUPTI, or else by events.
std::unique_ptr<ActivityRecorder> make_recorder(std::vector<CudaDevice*> devices);

// What a simulated GPU counted of the launch that a kernel record's grid id names, as
// tests/gpusim/include/gpusim_tools.h says. It is looked up in the runtime that is loaded; on a real GPU it is not
// there, and this is null.
using LaunchCounters = int (*)(std::int64_t grid_id, std::uint64_t* figures, int capacity);
LaunchCounters find_launch_counters();

}  // namespace trifold::cuda
