#include "engine/device_faults.h"

#include "engine/device_memory.h"

namespace gpusim {
namespace {
std::optional<Finding> faults[kMaxDevices];
}

void mark_faulted(int device, Finding finding) {
  if (!faults[device]) faults[device] = finding;
}
std::optional<Finding> fault_of(int device) {
  return faults[device];
}
void clear_fault(int device) {
  faults[device].reset();
}

}  // namespace gpusim
