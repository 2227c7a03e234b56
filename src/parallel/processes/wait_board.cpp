#include "parallel/processes/wait_board.h"

#include <utility>

namespace trifold {

void WaitBoard::set_watch(Watch* watch, std::chrono::milliseconds patience) {
  watch_ = watch;
  patience_ = patience;
}

void WaitBoard::set(int rank, RankStatus::Waiting waiting) {
  const std::lock_guard lock(mutex_);
  waiting_[rank] = std::move(waiting);
}

void WaitBoard::clear(int rank) {
  const std::lock_guard lock(mutex_);
  waiting_.erase(rank);
}

std::map<int, RankStatus::Waiting> WaitBoard::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

void WaitBoard::fail(const std::string& reason) const {
  if (watch_ == nullptr) return;
  watch_->fail(Fault::rank_lost, fmt::format("{} (its last step was {})", reason, watch_->step()));
}

}  // namespace trifold
