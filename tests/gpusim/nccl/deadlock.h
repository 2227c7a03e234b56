// When an operation that waits for other ranks will wait for ever: they are gone, or none of them has computed anything
// for GPUSIM_DEADLOCK_S seconds.
#pragma once

#include "nccl/communicator.h"

namespace gpusim {

// Called each time the entry is waited for and ranks are missing. True once, after a report that names them.
bool is_deadlocked(ncclComm& comm, Entry& entry, const std::vector<int>& missing);

}  // namespace gpusim
