// The only file with OpenMP in it. It is compiled without ThreadSanitizer (see CMakeLists.txt), because libgomp's
// barriers are invisible to it; the annotations below tell it of the fork and the join instead.
#include "core/parallel.h"

#include <omp.h>

#if defined(TRIFOLD_TSAN)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#else
static inline void __tsan_acquire(void*) {}  // NOLINT(bugprone-reserved-identifier): the sanitizer's
static inline void __tsan_release(void*) {}  // NOLINT(bugprone-reserved-identifier)
#endif

namespace trifold {

int thread_count() {
  return omp_get_max_threads();
}

void set_thread_count(int threads) {
  omp_set_num_threads(threads);
}

namespace detail {

void run_team(int threads, TeamFunction function, void* context) {
  if (threads == 1) {
    function(context, 0, 1);
    return;
  }
  char fork_token = 0;
  char join_token = 0;
  __tsan_release(&fork_token);
#pragma omp parallel num_threads(threads)
  {
    __tsan_acquire(&fork_token);
    function(context, omp_get_thread_num(), omp_get_num_threads());
    __tsan_release(&join_token);
  }
  __tsan_acquire(&join_token);
}

}  // namespace detail
}  // namespace trifold
