// When an operation that waits for other ranks will wait for ever: they are gone, or none of them has computed anything
// for GPUSIM_DEADLOCK_S seconds.
#pragma once

#include "nccl/communicator.h"

namespace gpusim {

// Those of the ranks that will never come any more: destroyed or aborted their communicator, or ended.
std::vector<int> departed_ranks(const World& world, const std::vector<int>& ranks);

// Called each time the entry is waited for and ranks are missing. `departed` are those of the missing that were gone
// already before they were last looked for. True once, after a report that names them.
bool is_deadlocked(ncclComm& comm, Entry& entry, const std::vector<int>& missing, const std::vector<int>& departed);

}  // namespace gpusim
