// The threads of a process's ranks: rank 0 is the thread that calls, every other has a thread of its own that lives as
// long as the team. Each has its share of the cores.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace trifold {

struct RankTeamOptions {
  int ranks = 1;
  int threads = 1;     // of each rank, for its kernels
  int first_rank = 0;  // as failures name it
  // Called once with the reason when a rank fails: ends the other ranks' waits for it.
  std::function<void(const std::string&)> on_failure = {};
};

class RankTeam {
 public:
  explicit RankTeam(RankTeamOptions options);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  // Calls work(rank) for every rank on its thread and returns when all have ended. What the first rank that failed
  // threw is thrown again here.
  void run(const std::function<void(int)>& work);

 private:
  void serve(int rank);
  void do_work(int rank);
  void stop();

  RankTeamOptions options_;
  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable end_;
  const std::function<void(int)>* work_ = nullptr;
  std::uint64_t round_ = 0;  // of work
  int running_ = 0;          // ranks, besides rank 0
  bool stopping_ = false;
  std::exception_ptr failure_;  // the first of this round
  std::vector<std::thread> threads_;
};

}  // namespace trifold
