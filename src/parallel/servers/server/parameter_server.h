// A server of a cluster: owns slices, keeps replicas of others', and answers messages. It follows the views that
// managers write; of pushes and pulls it takes those of its own epoch only. One thread uses it: the one of its mailbox.
// A push is answered when the values contain it and the replica has them; workers send it again until then.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "parallel/servers/member_peers.h"
#include "parallel/servers/server/early_requests.h"
#include "parallel/servers/server/held_states.h"
#include "parallel/servers/server/missing_slices.h"
#include "parallel/servers/server/owed_answers.h"
#include "parallel/servers/server/replica_keeper.h"
#include "parallel/servers/server/round_protocol.h"
#include "parallel/servers/server/served_slice.h"
#include "parallel/servers/server/state_message.h"
#include "parallel/servers/slices/slice_places.h"
#include "parallel/servers/view.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

struct ServerStatus;  // status_message.h

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
  // --- views
  void start_serving(const View& view);
  void stop_serving();
  void begin_rounds();
  void own(int slice, SliceState state);
  PeerId peer_named(const std::string& member);
  bool safe() const;
  ServerStatus status() const;

  // --- messages
  void handle_request(const Received& received);
  void take(const Received& received);
  void take_push(const Received& received);
  bool take_push_of_slice(const Received& received, std::uint64_t push, int slice, SlicePush pushed);
  void take_pull(const Received& received);
  void take_release(const Message& message);
  void take_fetch(const Received& received);
  void take_fetched(const Message& message);
  void take_replicas(const Received& received);
  void refuse(const Received& received, const char* code, const std::string& why);
  bool of_this_epoch(const Received& received);
  bool all_here(const Received& request, const std::vector<int>& slices);
  void wait(const Received& request, std::int64_t epoch);
  void take_early();

  // --- slices
  const ServedSlice& served(int slice) const { return owned_.at(slice); }
  const SliceState* find_state(int slice, std::int64_t cut) const;
  std::int64_t safe_version(int slice) const;
  void follow_rounds();
  void changed(int slice);
  void send_due();

  Args args_;
  std::int64_t version_ = 0;
  std::int64_t epoch_ = 0;
  bool serving_ = false;
  bool deposed_ = false;
  View view_;
  std::vector<SlicePlace> places_;
  int self_ = -1;  // among the view's servers
  MemberPeers peers_;
  std::unordered_map<int, ServedSlice> owned_;
  HeldStates held_;
  MissingSlices missing_;
  EarlyRequests early_;
  OwedAnswers owed_;
  int unsent_ = 0;  // messages since what is due was sent
  std::unique_ptr<ReplicaKeeper> replication_;
  std::unique_ptr<RoundProtocol> rounds_;  // where the rule chooses among whole models
  Counts counts_;
};

}  // namespace trifold
