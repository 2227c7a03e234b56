// How a command that runs long is asked to end.
#pragma once

#include <atomic>

namespace trifold {

// Becomes true with the first Ctrl-C or SIGTERM, or by whoever sets it; the second ends the process at once.
std::atomic<bool>& end_by_signals();

}  // namespace trifold
