// Queues of operations, below streams and graphs: an operation runs once everything its clock names has run. The host
// waits here; what it has waited for is its own clock, and orders what it enqueues afterwards.
#pragma once

#include <deque>
#include <vector>

#include "engine/streams.h"

namespace gpusim {

struct Queue {
  struct Pending {
    OperationId id = 0;
    Work work;
  };
  int number = 0;
  int device = 0;
  std::uint32_t enqueued = 0;
  std::uint32_t done = 0;
  std::uint32_t eager_until = 0;  // these were enqueued to run at once
  bool running = false;           // its front is being run, perhaps by another host thread
  bool retired = false;
  std::vector<OperationId> operations;  // by sequence - 1
  std::deque<Pending> pending;
};

Queue& new_queue(int device);
void retire(Queue& queue);  // what is in it still runs; its number is given out again when nobody can tell

// Appends the work after everything in `clock`, which then includes it.
OperationId submit(Queue& queue, Clock& clock, Work work);

bool is_done(const Clock& clock);
bool run_all(const Clock& clock);       // false: something waits for other ranks
bool run_one_of(const Clock& clock);    // runs one operation that `clock` needs; false when none can run now
void wait_on_host(const Clock& clock);  // until it is done, then the host knows it. Reports a deadlock.
void host_knows(const Clock& clock);
const Clock& known_to_hosts();  // what any host thread has waited for: one clock for all of them
// An operation that touched the memory and that no host thread has waited for; 0 when there is none.
OperationId access_unknown_to_host(Address address, std::size_t bytes);
Clock everything_on(int device);
void abandon_everything_on(int device);  // cudaDeviceReset after a fault

std::uint64_t time_of(const Clock& clock);  // on the simulated clock, once it is done

// Runs `body` without the simulator's lock, for functions of the program that may take locks of their own.
void without_lock(const std::function<void()>& body);
bool in_host_function();  // of this thread

}  // namespace gpusim
