// A server of a cluster: owns slices, keeps replicas of others', and answers messages. It follows the views that
// managers write; of pushes and pulls it takes those of its own epoch only. One thread uses it: the one of its mailbox.
// A push is answered when the values contain it and the replica has them; workers send it again until then.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "parallel/servers/server/replica_keeper.h"
#include "parallel/servers/server/round_protocol.h"
#include "parallel/servers/server/served_slice.h"
#include "parallel/servers/server/state_message.h"
#include "parallel/servers/slices/gradient_codec.h"
#include "parallel/servers/slices/slice_places.h"
#include "parallel/servers/view.h"
#include "parallel/servers/wire/byte_pool.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

class ParameterServer {
 public:
  struct Args {
    std::string id = {};
    ServedLayout layout = {};
    ConsistencyRules rules = {};
    std::shared_ptr<const AggregationRule> rule = {};
    std::shared_ptr<const SliceUpdate> update = {};
    bool half_answers = false;  // values travel in 16 bits
    Mailbox* mailbox = nullptr;
    AuditLog* audit = nullptr;  // none: nothing is written down
    // Of one that was given up for lost and comes back: what it went by before, and what give_up() left it with.
    std::vector<std::string> former_ids = {};
    std::map<int, SliceState> held = {};
  };
  explicit ParameterServer(Args args);

  void follow(const View& view);
  // more: another message is at hand, so what is ready may wait for what that makes ready, for a while.
  void handle(const Received& received, bool more = false);
  // Now and then: asks again for what has not come.
  void tick();

  // The job is done: what is here is how it ended.
  void note_the_end() const;

  // The newest view does without this server: what it holds counts only where nobody has anything newer.
  bool deposed() const { return deposed_; }
  // Serves nobody any more; the states of all slices that it has.
  std::map<int, SliceState> give_up();

  struct Counts {
    std::int64_t pushes = 0;    // of slices, that are in the values
    std::int64_t repeated = 0;  // taken once already
    std::int64_t late = 0;
    std::int64_t refused = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Whom a slice still owes an answer.
  struct OwedPush {
    std::uint64_t push = 0;  // of pushes_
    int shard = 0;
    std::int64_t clock = 0;
    std::int64_t version = -1;  // that contains it; -1: none yet
  };
  struct OwedPull {
    PeerId from = 0;
    std::uint64_t id = 0;
    std::int64_t clock = 0;
  };
  struct Owned {
    ServedSlice slice;
    std::vector<OwedPush> pushes = {};
    std::vector<OwedPull> pulls = {};
  };
  struct Push {
    PeerId from = 0;
    std::uint64_t id = 0;
    int left = 0;  // slices of it that are not safe yet
    bool late = false;
  };

  // A request by a view that has not come here yet, or for slices that are still on their way.
  struct Early {
    Received request;
    std::int64_t epoch = 0;
  };

  // Pushes of a worker that are safe, by their ids.
  struct SafePushes {
    std::vector<std::uint64_t> ids = {};
    std::vector<std::uint64_t> late = {};
  };
  struct ReadyPull {
    std::int64_t clock = 0;
    std::vector<int> slices = {};

    auto operator<=>(const ReadyPull&) const = default;
  };

  void handle_request(const Received& received);
  void take(const Received& received);
  void take_push(const Received& received);
  bool take_push_of_slice(const Received& received, std::uint64_t key, int slice, SlicePush push);
  void take_pull(const Received& received);
  void take_fetch(const Received& received);
  void take_replicas(const Received& received);
  void take_fetched(const Message& message);
  void answer_status(const Received& received);

  void stop_serving();
  void start_serving(const View& view);
  void own(int slice, SliceState state);
  void fetch_missing();
  PeerId peer_of(const MemberInfo& member);
  const SliceState* find_state(int slice, std::int64_t cut) const;
  void begin_choices();
  void follow_choices();
  void changed(int slice);
  void settle_pushes(int slice);
  void settle_pulls(int slice);
  void send_answers();
  void send_ready_pulls();
  std::vector<Message> pull_answers(const ReadyPull& ready) const;  // without ids
  void refuse(const Received& received, const char* code, const std::string& why);
  bool of_this_epoch(const Received& received);
  bool all_here(const Received& request, const std::vector<int>& slices);
  void wait(const Received& request, std::int64_t epoch);
  void take_early();
  void forget_spare_copies();
  bool safe() const;

  Args args_;
  std::int64_t version_ = 0;
  std::int64_t epoch_ = 0;
  bool serving_ = false;
  bool deposed_ = false;
  View view_;
  std::vector<SlicePlace> places_;
  int self_ = -1;  // among the view's servers
  std::unordered_map<int, Owned> owned_;
  std::map<int, SliceState> held_;      // of others, or ours until the view is settled
  std::map<int, std::string> missing_;  // slices we own, by who has them
  Clock::time_point asked_ = {};
  std::vector<Early> early_;
  std::size_t early_bytes_ = 0;  // of their payloads
  std::size_t early_room_ = 0;
  std::map<std::uint64_t, Push> pushes_;
  std::uint64_t next_push_ = 1;
  std::map<std::pair<PeerId, std::uint64_t>, ReadyPull> ready_pulls_;
  std::map<PeerId, SafePushes> safe_pushes_;
  int unsent_ = 0;  // messages since what is due was sent
  BytePool pool_;   // of answers
  std::unique_ptr<ReplicaKeeper> replication_;
  std::unique_ptr<RoundProtocol> rounds_;  // where the rule chooses among whole models
  std::map<std::string, PeerId> peers_;    // by address
  Counts counts_;
};

}  // namespace trifold
