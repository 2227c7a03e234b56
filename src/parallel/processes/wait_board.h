// What the ranks of this process wait for: their communicators write it, and the watch reads it when the job does not
// come forward. Here a wait also learns that the job has ended.
#pragma once

#include <chrono>
#include <map>
#include <mutex>

#include "parallel/processes/rank_status.h"
#include "parallel/processes/watch.h"

namespace trifold {

class WaitBoard {
 public:
  // From now on waits end when the job does, and one longer than `patience` is reported. Null: no more.
  void set_watch(Watch* watch, std::chrono::milliseconds patience);

  void set(int rank, RankStatus::Waiting waiting);
  void clear(int rank);
  std::map<int, RankStatus::Waiting> waiting() const;  // by rank

  // Waits for nobody, so it may be called under any lock.
  bool ended() const { return watch_ != nullptr && watch_->ended(); }
  void stop_if_ended() const {
    if (watch_ != nullptr) watch_->stop_if_ended();
  }
  void stalled(std::chrono::duration<double> waited) const {
    if (watch_ != nullptr) watch_->stalled(waited.count());
  }
  void fail(const std::string& reason) const;  // the job, by what a rank of this process met
  std::chrono::milliseconds patience() const { return patience_; }

 private:
  Watch* watch_ = nullptr;
  std::chrono::milliseconds patience_ = std::chrono::minutes(5);
  mutable std::mutex mutex_;
  std::map<int, RankStatus::Waiting> waiting_;
};

// One wait of one rank. Only a long one is written on the board.
class RankWait {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kLong = std::chrono::milliseconds(50);

  RankWait(WaitBoard& board, int rank) : board_(board), rank_(rank) {}
  ~RankWait() {
    if (described_) board_.clear(rank_);
  }
  RankWait(const RankWait&) = delete;
  RankWait& operator=(const RankWait&) = delete;

  Clock::duration waited() const { return Clock::now() - begin_; }
  bool is_long() const { return waited() > kLong; }
  bool described() const { return described_; }
  void describe(RankStatus::Waiting waiting) {
    board_.set(rank_, std::move(waiting));
    described_ = true;
  }
  // Asks the watch what all ranks do, which asks the communicators: not to be called under a lock of theirs.
  void report_if_stalled() {
    if (reported_ || waited() < board_.patience()) return;
    board_.stalled(waited());
    reported_ = true;
  }

 private:
  WaitBoard& board_;
  int rank_;
  Clock::time_point begin_ = Clock::now();
  bool described_ = false;
  bool reported_ = false;
};

}  // namespace trifold
