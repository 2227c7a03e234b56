#include "core/process_memory.h"

#include <sys/resource.h>

namespace trifold {

std::size_t peak_process_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace trifold
