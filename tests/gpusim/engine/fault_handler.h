// Catches what the host does with memory that is closed to it. A device pointer or freed pinned memory: reported, and
// the process ends. Pinned memory of a pending copy: reported as host_race, and the program goes on. A neighbour of
// such memory in the same page: the one instruction is let through.
#pragma once

namespace gpusim {

void install_fault_handler();

}  // namespace gpusim
