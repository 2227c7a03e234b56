// Streams and events. In lazy order (GPUSIM_ORDER=lazy, the default) a stream's work runs as late as the program's own
// synchronisation allows, so that a missing wait shows as stale data too; in eager order it runs when it is enqueued.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "engine/operations.h"

struct CUstream_st;  // cudaStream_t points to it

namespace gpusim {

using StreamHandle = CUstream_st*;

// All state of the simulator's host side is guarded by this one lock; it is recursive, and given up while a host thread
// waits for a collective that other threads have not reached yet (so nobody may hold it around a synchronising call).
std::recursive_mutex& simulator_lock();

enum class WorkKind { library, kernel, copy, memset, host_function, allocation };

// What a tool may know of a kernel launch, a copy or a fill before it runs.
struct WorkDetails {
  enum class Copy { none, host_to_host, host_to_device, device_to_host, device_to_device };

  std::string kernel = {};  // mangled
  std::uint32_t grid[3] = {};
  std::uint32_t block[3] = {};
  std::size_t static_shared_bytes = 0;
  std::size_t dynamic_shared_bytes = 0;
  std::size_t local_bytes = 0;  // a thread
  int registers = 0;            // a thread, as ptxas gave them; 0: not known
  Copy copy = Copy::none;
  std::size_t bytes = 0;  // copied or filled
};

// What is enqueued. `run` may be called many times (graph replays): it owns its arguments and changes none of them.
// `ready` (may be empty): false while it cannot run yet because other ranks have not come (collectives);
// the streams ask again when something else has been enqueued or when `wake_waiters` is called. In both
// current_operation() says for which operation they are called.
struct Work {
  std::string what;
  std::function<void()> run;
  std::function<bool()> ready = {};
  // Called each time it enters a stream with the operation's id: at once, or at every launch of the graph that captured
  // it. A collective joins its ranks here, not when the API function is called.
  std::function<void(OperationId)> enqueued = {};
  WorkKind kind = WorkKind::library;
  std::uint64_t cost_ns = 5000;  // on the simulated clock that event timing reads
  WorkDetails details = {};
};
// During graph capture of the stream the work becomes a graph node instead. Returns the operation's id (0 when
// captured, or when the stream is refused, which is reported).
OperationId enqueue(StreamHandle stream, Work work);
void wake_waiters();

// Runs everything up to and including the operation's predecessors: for collectives, which execute for all ranks at
// once.
bool run_predecessors(OperationId id);

int current_device();
int device_count();
bool is_device(int number);

}  // namespace gpusim
