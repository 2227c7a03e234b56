// The one error type. Whoever finds a fault throws it with a sentence a person can act on; main() prints it once and
// returns exit_code().
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace trifold {

enum class Fault {
  runtime,    // the job failed while running
  input,      // the job, a file or the command line is wrong
  rank_lost,  // a rank of the job disappeared
};

class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}

  Fault fault() const { return fault_; }
  int exit_code() const { return fault_ == Fault::runtime ? 1 : fault_ == Fault::input ? 2 : 3; }

 private:
  Fault fault_;
};

// The user's input is wrong: say what, where, and what to do.
template <class... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Fault::input, fmt::format(format, std::forward<Args>(args)...));
}

// Something failed while running.
template <class... Args>
[[noreturn]] void fail_runtime(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Fault::runtime, fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& message);

}  // namespace trifold

// An invariant of our own: a failure is a bug in Trifold, reported with its place.
#define TRIFOLD_CHECK(condition, ...)                                                                  \
  do {                                                                                                 \
    if (!(condition)) ::trifold::fail_check(#condition, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)
