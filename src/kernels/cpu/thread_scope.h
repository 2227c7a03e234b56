// While it lives, parallel() and oneDNN called from this thread use `threads` threads.
#pragma once

#include "core/parallel.h"

namespace trifold::cpu {

class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(thread_count()) { set_thread_count(threads); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  ~ThreadScope() { set_thread_count(before_); }

 private:
  int before_;
};

}  // namespace trifold::cpu
