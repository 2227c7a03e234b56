// Operations (kernels, copies, library calls) and who comes before whom. Every operation enqueued gets a vector clock
// over all streams; memory remembers the last operations that wrote and read each 4-byte cell, so an access that is not
// ordered after an earlier conflicting one is reported whatever order the simulator happened to run them in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/device_memory.h"

namespace gpusim {

using OperationId = std::uint32_t;         // 1, 2, ...; 0: none
using Clock = std::vector<std::uint32_t>;  // by stream number: how many of its operations are known to be done

struct Operation {
  OperationId id = 0;
  int device = 0;
  int stream = 0;              // the simulator's own number
  std::uint32_t sequence = 0;  // place in its stream, from 1
  Clock clock;
  std::string what;               // "kernel add_relu", "cudaMemcpyAsync host to device"
  bool any_device = false;        // copies reach every device's memory without peer access
  std::uint64_t cost_ns = 0;      // on the simulated clock
  std::uint64_t finish_ns = 0;    // known once it has run
  std::uint32_t correlation = 0;  // of the API call that gave it, while a tool listens; 0: none does
};

// The operation being executed by this thread; null outside of one. Set by the streams while they run it.
const Operation* current_operation();
class CurrentOperation {  // for the time of its life
 public:
  explicit CurrentOperation(const Operation* operation);
  ~CurrentOperation();
  CurrentOperation(const CurrentOperation&) = delete;
  CurrentOperation& operator=(const CurrentOperation&) = delete;

 private:
  const Operation* previous_;
};

const Operation* operation(OperationId id);
// True when `earlier` is done before `later` starts, by streams, events and host synchronisation.
bool happens_before(const Operation& earlier, const Operation& later);

// Called for every access of the current operation to device memory that check() allowed (copies: to pinned host memory
// too). `where` makes the text that
// says which thread and line (called only for a report); may be null.
void touch(Address address, std::size_t bytes, Access access, std::string (*where)(void*) = nullptr,
           void* where_argument = nullptr);
// The same for a range that touch() was already called for by this operation and access: cheap test to skip it.
bool touched_by_current(Address address, std::size_t bytes, Access access);
void forget_accesses(Address address, std::size_t bytes);  // the memory was freed

// An operation that touched the range and that `clock` does not cover; 0 when there is none.
OperationId access_outside(const Clock& clock, Address address, std::size_t bytes);

// A new operation, with the next id.
Operation& add_operation(Operation operation);
Operation& operation_to_run(OperationId id);
void join(Clock& clock, const Clock& other);  // what is known to either
bool covers(const Clock& clock, int stream, std::uint32_t sequence);

}  // namespace gpusim
