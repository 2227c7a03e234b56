#include "parallel/servers/client/ticket.h"

#include <algorithm>

namespace trifold {

bool TicketBoard::may_push(int shard, std::int64_t clock) const {
  const auto& clocks = unanswered_[static_cast<std::size_t>(shard)];
  return clocks.contains(clock) || clocks.size() < static_cast<std::size_t>(unanswered_clocks_);
}

// False: it did not come true in that time.
template <class Condition>
bool TicketBoard::wait_for_answers(std::unique_lock<std::mutex>& lock, std::optional<std::chrono::milliseconds> timeout,
                                   const Condition& condition) {
  const auto true_or_failed = [&] { return failure_ || condition(); };
  ++await_pushes_;
  bool came = true;
  if (timeout)
    came = changed_.wait_for(lock, *timeout, true_or_failed);
  else
    changed_.wait(lock, true_or_failed);
  --await_pushes_;
  return came;
}

bool TicketBoard::must_wait(int shard, std::int64_t clock) const {
  const std::lock_guard lock(mutex_);
  return !may_push(shard, clock);
}

ServerTicket TicketBoard::open_push(int shard, std::int64_t clock, int slices) {
  std::unique_lock lock(mutex_);
  wait_for_answers(lock, {}, [&] { return may_push(shard, clock); });
  check_locked();
  unanswered_[static_cast<std::size_t>(shard)][clock] += slices;
  ServerTicket ticket;
  ticket.state_ = std::make_shared<ServerTicket::State>(ServerTicket::State{.open = slices});
  return ticket;
}

ServerTicket TicketBoard::open(int slices) {
  ServerTicket ticket;
  ticket.state_ = std::make_shared<ServerTicket::State>(ServerTicket::State{.open = slices});
  return ticket;
}

bool TicketBoard::done(const ServerTicket& ticket) const {
  const std::lock_guard lock(mutex_);
  return ticket.state_ == nullptr || ticket.state_->open == 0 || ticket.state_->failure;
}

bool TicketBoard::failed(const ServerTicket& ticket) const {
  const std::lock_guard lock(mutex_);
  return ticket.state_ != nullptr && ticket.state_->failure;
}

bool TicketBoard::late(const ServerTicket& ticket) const {
  const std::lock_guard lock(mutex_);
  return ticket.state_ != nullptr && ticket.state_->late;
}

std::int64_t TicketBoard::staleness(const ServerTicket& ticket) const {
  const std::lock_guard lock(mutex_);
  return ticket.state_ == nullptr ? 0 : ticket.state_->staleness;
}

void TicketBoard::wait(const ServerTicket& ticket) {
  if (ticket.state_ == nullptr) return;
  ServerTicket::State& state = *ticket.state_;
  std::unique_lock lock(mutex_);
  state.awaited = true;
  changed_.wait(lock, [&] { return ended(state); });
  check_locked(state);
}

bool TicketBoard::wait_for(const ServerTicket& ticket, std::chrono::milliseconds timeout) {
  if (ticket.state_ == nullptr) return true;
  ServerTicket::State& state = *ticket.state_;
  std::unique_lock lock(mutex_);
  state.awaited = true;
  if (!changed_.wait_for(lock, timeout, [&] { return ended(state); })) return false;
  check_locked(state);
  return true;
}

bool TicketBoard::wait_for_room(int shard, std::int64_t clock, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!wait_for_answers(lock, timeout, [&] { return may_push(shard, clock); })) return false;
  check_locked();
  return true;
}

void TicketBoard::wait_for_pushes() {
  std::unique_lock lock(mutex_);
  wait_for_answers(lock, {},
                   [&] { return std::ranges::all_of(unanswered_, [](const auto& clocks) { return clocks.empty(); }); });
  check_locked();
}

ClientCounts TicketBoard::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void TicketBoard::check() const {
  const std::lock_guard lock(mutex_);
  check_locked();
}

void TicketBoard::check_locked() const {
  if (failure_) throw Refused(*failure_);
}

void TicketBoard::check_locked(const ServerTicket::State& state) const {
  if (state.failure) throw Refused(*state.failure);
  if (state.open > 0) check_locked();
}

void TicketBoard::settle(const ServerTicket& ticket) {
  ServerTicket::State& state = *ticket.state_;
  state.open -= 1;
  if (state.open == 0 && state.awaited) changed_.notify_all();
}

void TicketBoard::close_push(int shard, std::int64_t clock) {
  auto& clocks = unanswered_[static_cast<std::size_t>(shard)];
  const auto found = clocks.find(clock);
  TRIFOLD_CHECK(found != clocks.end(), "an answer to a push of shard {}, clock {}", shard, clock);
  found->second -= 1;
  if (found->second > 0) return;
  clocks.erase(found);
  if (await_pushes_ > 0) changed_.notify_all();
}

void TicketBoard::answer_push(const ServerTicket& ticket, int shard, std::int64_t clock, bool late) {
  const std::lock_guard lock(mutex_);
  counts_.late_pushes += late ? 1 : 0;
  ticket.state_->late = ticket.state_->late || late;
  settle(ticket);
  close_push(shard, clock);
}

void TicketBoard::answer(const ServerTicket& ticket) {
  const std::lock_guard lock(mutex_);
  settle(ticket);
}

void TicketBoard::answer_pull(const ServerTicket& ticket, std::int64_t staleness) {
  const std::lock_guard lock(mutex_);
  counts_.pulled_slices += 1;
  counts_.staleness_max = std::max(counts_.staleness_max, staleness);
  counts_.staleness_sum += static_cast<double>(staleness);
  ticket.state_->staleness = std::max(ticket.state_->staleness, staleness);
  settle(ticket);
}

void TicketBoard::fail_push(const ServerTicket& ticket, int shard, std::int64_t clock, const Refused& why) {
  const std::lock_guard lock(mutex_);
  if (!ticket.state_->failure) ticket.state_->failure = why;
  if (!failure_) failure_ = why;
  close_push(shard, clock);
  changed_.notify_all();
}

void TicketBoard::fail(const ServerTicket& ticket, const Refused& why) {
  const std::lock_guard lock(mutex_);
  if (!ticket.state_->failure) ticket.state_->failure = why;
  changed_.notify_all();
}

void TicketBoard::fail_all(const Refused& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = why;
  changed_.notify_all();
}

void TicketBoard::count_traffic(std::uint64_t sent, std::uint64_t received, std::uint64_t sent_again) {
  const std::lock_guard lock(mutex_);
  counts_.sent_bytes = sent;
  counts_.received_bytes = received;
  counts_.sent_again = sent_again;
}

}  // namespace trifold
