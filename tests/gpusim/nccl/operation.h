// Operations of several ranks. Each rank's part is work in its own stream: it pins its data on the board when the
// stream reaches it and runs once all others have pinned theirs. Streams of this process are driven as far as another
// rank needs them; those of other processes by their watchers.
#pragma once

#include "nccl/communicator.h"

namespace gpusim {

// Enqueues the calls as one operation of the communicator.
ncclResult_t enqueue_calls(ncclComm& comm, cudaStream_t stream, std::vector<Call> calls);

// A thread that drives this process's ranks when another process waits for them. None when all ranks are here.
void start_watcher(World& world);

// Runs what the rank has enqueued, or reports that it cannot.
void flush(ncclComm& comm);

// At the end of the process: reports what a rank enqueued and no peer came to (nobody waited for it, so no clock ran).
void watch_process_end(ncclComm& comm);

std::string text_of(const Call& call);

}  // namespace gpusim
