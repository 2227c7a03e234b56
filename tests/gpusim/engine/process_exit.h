// The end of the process: work that was enqueued and never waited for still runs (its errors count), leaks are looked
// for (GPUSIM_LEAKS=1), and a program with reports does not return 0.
#pragma once

#include <functional>

namespace gpusim {

inline constexpr int kExitCodeWithReports = 86;

// Called when the process ends, before the program's static objects are destroyed that existed at the first CUDA call.
void at_process_end(std::function<void()> action);

}  // namespace gpusim
