// How far the clocks of a job's processes are apart: process 0 asks each of the others for its time, again and again,
// and keeps the answer that came back soonest, since it is wrong by half of that time at most.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/communicator/communicator.h"

namespace trifold {

// One process's clock against that of process 0, all in nanoseconds.
struct ClockReading {
  std::int64_t at = 0;           // by process 0's clock
  std::int64_t ahead = 0;        // of process 0's
  std::int64_t uncertainty = 0;  // half of the round trip
};

inline std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Every member of the group calls it; the first one gets a reading of each, its own is zero. The others get none.
// `now`: this member's clock.
std::vector<ClockReading> read_clocks(Communicator& group,
                                      const std::function<std::int64_t()>& now = steady_nanoseconds);

// A clock that drifts evenly between two readings.
class AlignedClock {
 public:
  AlignedClock(const ClockReading& first, const ClockReading& last) : first_(first), last_(last) {}

  std::int64_t by_first(std::int64_t time) const;  // process 0's time, from this process's
  std::int64_t uncertainty() const;

 private:
  ClockReading first_, last_;
};

}  // namespace trifold
