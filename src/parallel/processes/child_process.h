// Processes that this one starts. They end when the thread that started them does, however it ends.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trifold {

// How a process ended.
struct ProcessEnd {
  int process = 0;     // its number, where there are several
  int exit_code = -1;  // -1: by the signal
  int signal = 0;

  bool failed() const { return exit_code != 0; }
};

std::string to_string(const ProcessEnd& end);  // "was killed by signal 9 (Killed)"

ProcessEnd process_end(int wait_status);

// The id. `command` is a path and its arguments; `variables` ("NAME=value") come to this process's environment, without
// what mpirun or srun gave it.
int start_process(std::vector<std::string> command, const std::vector<std::string>& variables);

class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> command, const std::vector<std::string>& variables = {})
      : id_(start_process(std::move(command), variables)) {}
  ~ChildProcess();  // kills it
  ChildProcess(ChildProcess&& other) noexcept : id_(other.id_), end_(other.end_) { other.id_ = -1; }
  ChildProcess& operator=(ChildProcess&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(end_, other.end_);
    return *this;
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int id() const { return id_; }
  const std::optional<ProcessEnd>& poll();  // null: it runs
  void signal(int signal) const;

 private:
  int id_;  // -1: moved away
  std::optional<ProcessEnd> end_;
};

}  // namespace trifold
