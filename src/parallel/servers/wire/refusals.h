// Counts who and what was refused, and logs it: a line a second at most, however many knock.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace trifold {

class Refusals {
 public:
  // From any thread.
  void note(const std::string& sentence);
  std::uint64_t count() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::uint64_t unsaid_ = 0;  // since the last line
  std::chrono::steady_clock::time_point quiet_until_ = {};
};

}  // namespace trifold
