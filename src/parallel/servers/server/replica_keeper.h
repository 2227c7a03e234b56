// Keeps the replicas of a server's slices on the next servers: sends what has changed, one message a slice on its way
// at a time, so that a slice that changes faster than it can be sent is sent less often, not later and later.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parallel/servers/server/state_message.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

class ReplicaKeeper {
 public:
  struct Args {
    Mailbox* mailbox = nullptr;
    const ServedLayout* layout = nullptr;
    std::int64_t epoch = 0;
    std::function<const SliceState&(int slice)> state = {};  // of a slice that is replicated
  };
  explicit ReplicaKeeper(Args args) : args_(std::move(args)) {}

  void add(int slice, PeerId replica);
  // The slice has a new version.
  void changed(int slice) { slices_.at(slice).dirty = true; }
  // Sends what is due, again what was not answered for long.
  void send_due();
  // Of a replicate_answer: the slices whose replica has a newer version now.
  std::vector<int> take_answer(std::uint64_t id);

  bool replicates(int slice) const { return slices_.contains(slice); }
  std::int64_t safe_version(int slice) const { return slices_.at(slice).safe; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Copy {
    PeerId replica = 0;
    std::int64_t safe = -1;      // version that the replica has
    std::int64_t safe_cut = -1;  // the newest cut that it has
    bool dirty = true;           // newer than what is on its way
    bool on_its_way = false;
  };
  struct Sent {
    struct Part {
      int slice = 0;
      std::int64_t version = 0;
      std::int64_t cut = -1;
    };
    std::vector<Part> parts;
    Clock::time_point at;
  };

  void send(PeerId replica, const std::vector<int>& slices);

  Args args_;
  std::map<int, Copy> slices_;
  std::map<std::uint64_t, Sent> sent_;
  std::uint64_t next_id_ = 1;
};

}  // namespace trifold
