// Cuts off callers whose message never ends. ZeroMQ bounds one part of a message and counts the messages that wait, but
// keeps the parts of an incomplete one without bound, and shows none of them. What can be seen is how much came over a
// connection, and what was received of it: whoever sends more than the largest message, and nothing complete of it
// waits to be received, is not a member in good standing.
//
// What such a peer takes up until then is more than it sent, since each part is a record of 64 bytes, and one of its
// own beyond 33 bytes: 4.5 times with keys, where a part of one byte is 36 on the wire; 32 times without, where an
// empty one is 2. While nobody receives, as much may come as all messages that could wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "parallel/servers/wire/event_descriptor.h"
#include "parallel/servers/wire/refusals.h"

namespace trifold {

class ConnectionWatch {
 public:
  // `largest`: bytes of a message, all its parts; `waiting`: messages of a connection that ZeroMQ keeps at most.
  ConnectionWatch(std::size_t largest, int waiting, Refusals& refusals);

  // By the thread that receives. A whole message came by this descriptor; -1: nobody knows which.
  void took(int descriptor, std::size_t bytes, std::size_t parts);
  // Nothing that was complete by now waits.
  void found_empty();
  // To poll on: set while found_empty() is waited for.
  int asked() const { return asked_.get(); }

  // By the gatekeeper's thread, which says of every connection when it begins and ends, in their order.
  void opened(int descriptor);
  void closed(int descriptor);
  // When everything was said that is known by now: a descriptor may be another's already. The answer is when to look
  // next; null: when there is another connection.
  std::optional<std::chrono::milliseconds> look();

 private:
  using Clock = std::chrono::steady_clock;

  struct Taken {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;  // on the wire, rather too many
  };
  struct Progress {
    Taken taken;                 // of one descriptor
    std::uint64_t messages = 0;  // of all
    std::uint64_t empties = 0;   // how often nothing waited
  };
  struct Connection {
    std::uint64_t cookie = 0;     // tells sockets apart that have the same descriptor, one after the other
    std::uint64_t accounted = 0;  // bytes that came and belong to messages that were taken
    Clock::time_point due = {};   // to be looked at
    std::optional<Progress> asked_at = {};
    bool cut = false;
  };

  void look_at(int descriptor, Connection& connection, Clock::time_point now);
  // `ask`: whoever receives is to look whether anything waits, at once or when it comes to it.
  Progress progress_of(int descriptor, bool ask);
  bool none_waits(const Progress& asked_at, const Progress& now) const;
  void cut_off(int descriptor, Connection& connection, std::uint64_t bytes);

  const std::uint64_t limit_;        // bytes of an incomplete message
  const std::uint64_t limit_queue_;  // ... and of all that may wait before it
  Refusals& refusals_;
  EventDescriptor asked_;

  std::mutex mutex_;
  std::vector<Taken> taken_;  // by descriptor, whoever had it
  std::uint64_t messages_ = 0;
  std::uint64_t empties_ = 0;
  bool is_asked_ = false;

  // The gatekeeper's alone.
  std::map<int, Connection> open_;
  std::vector<Taken> known_;  // of taken_, what is accounted for
};

}  // namespace trifold
