// The answers that a server owes its workers: to a push when the values contain it and the replica has them, to a pull
// when the values are new enough for the worker that asks. Answers that are ready wait for send(), so that several of
// one worker become one message.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "parallel/servers/server/served_slice.h"
#include "parallel/servers/server/state_message.h"
#include "parallel/servers/wire/byte_pool.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

class OwedAnswers {
 public:
  struct Args {
    Mailbox* mailbox = nullptr;
    const ServedLayout* layout = nullptr;
    bool half = false;  // values travel in 16 bits
    std::function<const ServedSlice&(int slice)> slice = {};
  };
  explicit OwedAnswers(Args args) : args_(std::move(args)) {}

  // A push of several slices has one answer. The result names it here.
  std::uint64_t begin_push(PeerId from, std::uint64_t id, std::size_t slices);
  void add_push(std::uint64_t push, int slice, ShardClock pushed);
  // Its answer will say that some of it came too late to count.
  void note_late(std::uint64_t push) { pushes_.at(push).late = true; }
  // It was refused: there is nothing else to answer.
  void drop_push(std::uint64_t push) { pushes_.erase(push); }
  // False: too many pulls wait for this slice.
  bool add_pull(PeerId from, std::uint64_t id, int slice, std::int64_t clock);

  // After a slice has changed, or its replica has. safe_version: the newest that the replica has.
  void settle_pushes(int slice, std::int64_t safe_version);
  void settle_pulls(int slice);

  void send();
  // Nothing is owed any more: workers ask the new owners.
  void clear();

 private:
  struct Push {
    PeerId from = 0;
    std::uint64_t id = 0;
    std::size_t left = 0;  // slices of it that are not safe yet
    bool late = false;
  };
  struct PushOfSlice {
    std::uint64_t push = 0;  // of pushes_
    ShardClock pushed = {};
    std::int64_t version = -1;  // that contains it; -1: none yet
  };
  struct PullOfSlice {
    PeerId from = 0;
    std::uint64_t id = 0;
    std::int64_t clock = 0;
  };
  struct OfSlice {
    std::vector<PushOfSlice> pushes = {};
    std::vector<PullOfSlice> pulls = {};
  };
  struct SafePushes {
    std::vector<std::uint64_t> ids = {};
    std::vector<std::uint64_t> late = {};
  };
  struct ReadyPull {
    std::int64_t clock = 0;
    std::vector<int> slices = {};

    auto operator<=>(const ReadyPull&) const = default;
  };

  void send_ready_pulls();
  std::vector<Message> pull_answers(const ReadyPull& ready) const;  // without ids

  Args args_;
  std::map<std::uint64_t, Push> pushes_;
  std::uint64_t next_push_ = 1;
  std::unordered_map<int, OfSlice> of_slices_;
  std::map<PeerId, SafePushes> safe_pushes_;
  std::map<std::pair<PeerId, std::uint64_t>, ReadyPull> ready_pulls_;
  BytePool pool_;
};

}  // namespace trifold
