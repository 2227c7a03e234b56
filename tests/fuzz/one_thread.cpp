// core/parallel.h on one thread: reading needs no others, and the fuzz targets no OpenMP.
#include "core/parallel.h"

namespace trifold {

int thread_count() {
  return 1;
}

void set_thread_count(int /*threads*/) {}

namespace detail {

void run_team(int /*threads*/, TeamFunction function, void* context) {
  function(context, 0, 1);
}

}  // namespace detail
}  // namespace trifold
