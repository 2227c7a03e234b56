// Keeps the processes of a job in sight of each other, beside their tensors: process 0 holds a connection to every
// other one. A process that is lost, fails or hangs ends the job in all of them within seconds, and one of them says in
// one sentence what happened, by the ranks that the processes have. A thread of its own does this, so it works while
// the others compute or wait.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "parallel/processes/line_socket.h"
#include "parallel/processes/rank_status.h"
#include "parallel/rank_placement.h"

namespace trifold {

// Connections of process 0 to all others, in their order; of every other process, the one to process 0. `secret` keeps
// strangers out.
std::vector<LineSocket> meet_others(LineListener& listener, int size, const std::string& secret);
std::vector<LineSocket> meet_first(const std::string& host, int port, int rank, const std::string& secret);

class Watch {
 public:
  struct Args {
    int process = 0;
    int processes = 1;
    std::vector<LineSocket> connections = {};
    std::function<void(const std::string&)> say = {};  // tells the user why the job ends
    bool may_exit = true;                              // ends the process when its threads do not stop by themselves
  };

  explicit Watch(Args args);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void at_step(std::int64_t step) { step_ = step; }  // updates done
  std::int64_t step() const { return step_; }
  // The ranks that processes have from now on; one each until then.
  void set_placement(const RankPlacement& placement);
  // What ranks of this process do, called from the watch's thread; their `step` is filled in.
  void set_status(std::function<std::map<int, RankStatus>()> by_rank);

  // This process fails: ends the job everywhere. Returns when process 0 has told the user.
  void fail(Fault fault, const std::string& reason);
  // A rank of this process has waited that long: ends the job with a report of what every rank does.
  void stalled(double seconds);

  bool ended() const { return has_ended_; }
  // Throws why the job ended, if it has.
  void stop_if_ended() const;

  // Process 0 gives all others a text under a name; they wait for it.
  void publish(const std::string& name, const std::string& text);
  std::string look_up(const std::string& name, std::chrono::milliseconds patience);

  // The end of a job in which nothing failed.
  void leave();
  // After that: returns when the other processes are gone, or the time is over.
  void await_others(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    LineSocket socket;
    int process = 0;
    bool left = false;
    bool open = true;
    std::int64_t step = 0;
    std::optional<std::vector<RankStatus>> statuses = {};  // of its ranks
  };
  struct End {
    Fault fault;
    std::string reason;
  };
  struct Inquiry {
    double seconds;
    Clock::time_point deadline;
  };

  void run();
  void wait_for_events();
  void receive_from(Peer& peer);
  void handle(Peer& peer, const std::string& line);
  void handle_lost(Peer& peer);
  void send_step();
  void begin_inquiry(double seconds);
  void finish_inquiry();
  std::vector<RankStatus> own_statuses() const;
  void end_all(Fault fault, const std::string& reason);
  void end_here(Fault fault, const std::string& reason);
  void exit_if_overdue();
  void wake() const;
  void stop();

  Args args_;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<bool> has_ended_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  RankPlacement placement_;
  std::function<std::map<int, RankStatus>()> status_;
  std::map<std::string, std::string> values_;
  std::optional<End> end_;
  Clock::time_point ended_at_;
  std::optional<Inquiry> inquiry_;
  std::int64_t sent_step_ = 0;
  bool left_ = false;
  bool stopping_ = false;
  int wake_descriptor_ = -1;
  std::thread thread_;
};

}  // namespace trifold
