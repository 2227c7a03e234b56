// What can be told of another process without its help: whether it still exists, and whether it computes. A rank that
// computes is late; one that does not is waiting, and may be missing for good.
#pragma once

#include <cstdint>

#include <sys/types.h>

namespace gpusim {

bool has_ended(pid_t process);
std::uint64_t cpu_ms(pid_t process);  // used so far; 0 when it has ended

double seconds_until_deadlock();  // GPUSIM_DEADLOCK_S, 5 unless set

}  // namespace gpusim
