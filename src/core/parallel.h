// Work shared among this rank's threads. Everything of ours that runs in parallel inside a step goes through here, on
// the same OpenMP team that oneDNN uses (two teams would spin against each other on the same cores).
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace trifold {

// Threads that parallel() uses when called from the current thread.
int thread_count();
void set_thread_count(int threads);

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

// Part `part` of `parts` nearly equal parts of [0, count), each (but the last) a multiple of `grain` long.
constexpr Range share(std::int64_t count, int part, int parts, std::int64_t grain = 1) {
  const std::int64_t units = (count + grain - 1) / grain;
  const std::int64_t begin = units * part / parts * grain;
  const std::int64_t end = units * (part + 1) / parts * grain;
  return {begin < count ? begin : count, end < count ? end : count};
}

namespace detail {
using TeamFunction = void (*)(void* context, int thread, int threads);
void run_team(int threads, TeamFunction function, void* context);
}  // namespace detail

// Calls body(thread, threads) once on every thread of the team and returns when all have. The body must not throw.
template <class Body>
void parallel(Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::run_team(
      thread_count(), [](void* context, int thread, int threads) { (*static_cast<Plain*>(context))(thread, threads); },
      const_cast<std::remove_const_t<Plain>*>(&body));
}

// Calls body(Range) on every thread with its share of [0, count).
template <class Body>
void parallel_for(std::int64_t count, Body&& body, std::int64_t grain = 1) {
  parallel([&](int thread, int threads) {
    const Range range = share(count, thread, threads, grain);
    if (!range.empty()) body(range);
  });
}

}  // namespace trifold
