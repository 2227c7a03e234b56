// A device whose kernel faulted is lost: what is still enqueued on it does not run, and every call on it returns the
// error until cudaDeviceReset.
#pragma once

#include <optional>

#include "engine/report.h"

namespace gpusim {

void mark_faulted(int device, Finding finding);  // the first one stays
std::optional<Finding> fault_of(int device);
void clear_fault(int device);

}  // namespace gpusim
