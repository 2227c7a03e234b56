// Promises of a client: a ticket stands for a push or a pull of a tensor until servers have answered all of its slices.
// The board knows which are open; compute threads wait at it, the thread that speaks to the servers settles them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace trifold {

// A server, or the client in its place, will not do what was asked. Codes are those of refusals; besides, "stopped":
// the job ends before that clock, or the client has been stopped.
class Refused : public Error {
 public:
  Refused(std::string code, const std::string& why) : Error(Fault::runtime, why), code_(std::move(code)) {}
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

// Cheap to copy, and to throw away: what it stands for goes on.
class ServerTicket {
 public:
  ServerTicket() = default;  // of nothing: done

 private:
  friend class TicketBoard;
  struct State {
    int open = 0;          // slices not answered yet
    bool awaited = false;  // somebody is to be told when it is done
    bool late = false;
    std::int64_t staleness = 0;  // of a pull: of its stalest slice, in clocks
    std::optional<Refused> failure = {};
  };
  std::shared_ptr<State> state_;
};

struct ClientCounts {
  std::uint64_t sent_bytes = 0;      // frames, on the wire; without those to a head of its host
  std::uint64_t received_bytes = 0;  // likewise
  std::uint64_t sent_again = 0;      // requests
  std::uint64_t late_pushes = 0;     // slices whose round had ended without them
  std::uint64_t pulled_slices = 0;
  std::int64_t staleness_max = 0;  // in clocks, over those slices
  double staleness_sum = 0;

  double staleness_mean() const { return pulled_slices == 0 ? 0 : staleness_sum / static_cast<double>(pulled_slices); }
};

class TicketBoard {
 public:
  TicketBoard(int shards, int unanswered_clocks)
      : unanswered_clocks_(unanswered_clocks), unanswered_(static_cast<std::size_t>(shards)) {}

  // Of compute threads.
  bool must_wait(int shard, std::int64_t clock) const;  // open_push() would
  // Waits while as many other clocks of the shard are unanswered as may be.
  ServerTicket open_push(int shard, std::int64_t clock, int slices);
  ServerTicket open(int slices);
  bool done(const ServerTicket& ticket) const;
  bool failed(const ServerTicket& ticket) const;
  bool late(const ServerTicket& ticket) const;  // some of its slices came when their round had ended
  std::int64_t staleness(const ServerTicket& ticket) const;
  // Those who wait are woken for what they wait for: tickets are done far more often than that.
  void wait(const ServerTicket& ticket);
  // False: it was not done in that time.
  bool wait_for(const ServerTicket& ticket, std::chrono::milliseconds timeout);
  bool wait_for_room(int shard, std::int64_t clock, std::chrono::milliseconds timeout);
  void wait_for_pushes();  // all
  ClientCounts counts() const;
  void check() const;  // throws if a push has failed, or the client was stopped

  // Of the thread that speaks to the servers: one slice each.
  void answer_push(const ServerTicket& ticket, int shard, std::int64_t clock, bool late);
  void answer(const ServerTicket& ticket);
  void answer_pull(const ServerTicket& ticket, std::int64_t staleness);
  // A push that failed is never made good: from now on every call throws.
  void fail_push(const ServerTicket& ticket, int shard, std::int64_t clock, const Refused& why);
  void fail(const ServerTicket& ticket, const Refused& why);
  void fail_all(const Refused& why);
  void count_traffic(std::uint64_t sent, std::uint64_t received, std::uint64_t sent_again);

 private:
  void settle(const ServerTicket& ticket);
  void close_push(int shard, std::int64_t clock);
  bool may_push(int shard, std::int64_t clock) const;
  void check_locked() const;
  void check_locked(const ServerTicket::State& state) const;
  template <class Condition>
  bool wait_for_answers(std::unique_lock<std::mutex>& lock, std::optional<std::chrono::milliseconds> timeout,
                        const Condition& condition);
  bool ended(const ServerTicket::State& state) const { return state.open == 0 || state.failure || failure_; }

  const int unanswered_clocks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int await_pushes_ = 0;                                          // how many wait for answers to any pushes
  std::vector<std::map<std::int64_t, std::int64_t>> unanswered_;  // by shard: clock -> slices
  std::optional<Refused> failure_;                                // of the client
  ClientCounts counts_;
};

}  // namespace trifold
