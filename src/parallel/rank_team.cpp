#include "parallel/rank_team.h"

#include "core/parallel.h"

namespace trifold {
namespace {

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown failure";
  }
}

}  // namespace

RankTeam::RankTeam(RankTeamOptions options) : options_(std::move(options)) {
  set_thread_count(options_.threads);
  try {
    for (int rank = 1; rank < options_.ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
  } catch (...) {
    stop();
    throw;
  }
}

RankTeam::~RankTeam() {
  stop();
}

void RankTeam::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankTeam::run(const std::function<void(int)>& work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    failure_ = nullptr;
    running_ = options_.ranks - 1;
    ++round_;
  }
  begin_.notify_all();
  do_work(0);
  std::unique_lock lock(mutex_);
  end_.wait(lock, [&] { return running_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

void RankTeam::serve(int rank) {
  set_thread_count(options_.threads);
  std::uint64_t served = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      begin_.wait(lock, [&] { return stopping_ || round_ > served; });
      if (stopping_) return;
      served = round_;
    }
    do_work(rank);
    {
      const std::lock_guard lock(mutex_);
      running_ -= 1;
    }
    end_.notify_one();
  }
}

void RankTeam::do_work(int rank) {
  try {
    (*work_)(rank);
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = failure_ == nullptr;
      if (first) failure_ = failure;
    }
    if (first && options_.on_failure)
      options_.on_failure("rank " + std::to_string(options_.first_rank + rank) + " failed: " + message_of(failure));
  }
}

}  // namespace trifold
