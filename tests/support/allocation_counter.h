// Counts calls of operator new that our own code makes, on any thread, while a counter lives: calls from inside oneDNN
// and OpenMP do not count. For tests of "run() allocates nothing".
#pragma once

#include <cstdint>

namespace trifold::test {

class AllocationCounter {
 public:
  AllocationCounter();  // one at a time
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;
  ~AllocationCounter();

  std::int64_t count() const;
};

}  // namespace trifold::test
