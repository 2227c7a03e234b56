// Processes that this one starts and looks after: all at once, each with its number, until the last has ended. When one
// fails the others may end by themselves for a while. Signals that would end this process go to all of them instead; it
// should have no other threads, which would be ended by them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "parallel/processes/child_process.h"

namespace trifold {

struct TeamEnd {
  std::vector<ProcessEnd> ends;  // in the order in which they were seen, without those that the team killed itself
  int interrupt = 0;             // the last signal that was passed on; 0: none
};

class ProcessTeam {
 public:
  struct Args {
    std::vector<std::string> command = {};  // a path, and its arguments
    int processes = 1;                      // several find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    std::chrono::milliseconds grace = std::chrono::seconds(10);  // of the others, after the first that failed
  };

  // Starts them. They end when this process does, however it ends.
  explicit ProcessTeam(Args args);
  ~ProcessTeam();  // kills those that still run
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  // Returns when all have ended.
  TeamEnd wait();

 private:
  void start(int process, int port);
  void signal_all(int signal) const;
  void pass_on(int signal);
  void collect();
  bool running() const;

  Args args_;
  std::vector<int> processes_;  // their ids; -1: ended
  bool killing_ = false;
  TeamEnd end_;
  std::chrono::steady_clock::time_point failed_at_ = std::chrono::steady_clock::time_point::max();
};

}  // namespace trifold
