// The manager of a cluster, on a thread of its own: sees who lives, writes the views that all follow, hears what
// workers have done, hands out the first values of the model, and says when to stop. What it decides by is in
// view_rules.h.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "parallel/servers/manager/node_reports.h"
#include "parallel/servers/manager/view_rules.h"
#include "parallel/servers/member_peers.h"
#include "parallel/servers/participation.h"
#include "parallel/servers/registry/registry.h"
#include "parallel/servers/registry/registry_service.h"
#include "parallel/servers/server/state_message.h"
#include "parallel/servers/view.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

// One shard's clock, as its worker reports it.
struct ShardReport {
  double loss = 0;  // mean over its samples
  double correct = 0;
  std::int64_t samples = 0;
  double step_ms = 0;
  std::int64_t staleness = 0;       // of the values it computed with: clocks that the slowest shard was behind
  std::int64_t late = 0;            // slices that came when their round had ended without them, since it last reported
  std::int64_t sent_bytes = 0;      // by its worker since it last reported, of any shard
  std::int64_t received_bytes = 0;  // likewise
  std::int64_t peak_bytes = 0;      // of the worker's process so far
  std::chrono::steady_clock::time_point arrived = {};
};

// What a shard has done since this manager leads, for who wants to see it.
struct ShardProgress {
  std::int64_t clock = -1;  // the last one done; -1: none
  std::int64_t reports = 0;
  double work_ms = 0;  // of these
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  ShardReport last = {};  // where there is one
};

// This manager leads no more: its lease has run out, or another one has written since. It may stand by again.
class LeadershipLost : public Error {
 public:
  explicit LeadershipLost(const std::string& message) : Error(Fault::runtime, message) {}
};

class ClusterManager {
 public:
  struct Args {
    MemberInfo self = {};
    Mailbox* mailbox = nullptr;  // this manager's; its thread uses it
    std::unique_ptr<Registry> registry = {};
    RegistryService* service = nullptr;  // of a registry that this manager keeps for all; null: it is elsewhere
    ServedLayout layout = {};
    Participation participation = {};
    int servers = 1;  // that the first view waits for
    int workers = 1;
    int backup = 0;                                 // shards that a clock is not waited for
    bool combine = false;                           // workers of one host push through one of them
    std::function<void(const View&)> on_view = {};  // hears of every new one, on the manager's thread
    // False: this manager's lease has run out, and another may lead. Null: nobody else can.
    std::function<bool()> leads = {};
    // It ends, for this reason: whoever waits for the cluster waits in vain. On its thread.
    std::function<void(const std::string& why)> on_failure = {};
  };
  explicit ClusterManager(Args args);
  ~ClusterManager();
  ClusterManager(const ClusterManager&) = delete;
  ClusterManager& operator=(const ClusterManager&) = delete;

  enum class Offer {
    model,   // the values to begin with
    clocks,  // only what has been done: another manager has led, and servers have the model, or it is lost
  };
  // First values, one a slice. Where servers hold newer ones already (another manager has led before), those count.
  void offer(std::vector<SliceState> states, Offer what = Offer::model);

  // Whether all shards have done this clock, waiting for it at most so long. Throws if the cluster cannot go on.
  bool wait_for(std::int64_t clock, std::chrono::milliseconds timeout);
  // What they said of it, by shard. Of earlier clocks nobody will ask.
  std::map<int, ShardReport> take_reports(std::int64_t clock);
  std::int64_t farthest() const;  // the last clock that any shard has done; -1: none
  std::int64_t worst_staleness() const;
  std::vector<ShardProgress> progress() const;  // by shard
  NodeReports& nodes() { return nodes_; }

  // Servers may forget the cuts up to this clock.
  void release_cuts(std::int64_t clock);

  // Workers end when their shards have done so many clocks. The version of the first view that says so.
  std::int64_t stop(std::int64_t clock, const std::string& why);
  // The same without waiting for it, until a later clock is named. Called before offer(), nobody goes farther.
  void pause_at(std::int64_t clock);
  // All is done: everybody may go. Returns when nobody is registered any more (true), or after so long.
  bool end(std::chrono::milliseconds timeout);

  View view() const;
  bool leads() const;  // false: it has failed, or another one does
  bool lost_leadership() const;
  // A manager before this one was asked to end the job.
  bool asked_to_end() const;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void look_and_decide();
  void look_at_members();
  void reconsider();
  void begin_change(std::vector<MemberInfo> servers);
  void ask_for_status();
  void take_status(const Message& message);
  bool all_reported() const;
  LastKeepers last_keepers(const ServedEpoch& served) const;
  void settle();
  void wait_for_servers(const std::string& otherwise);
  void publish(View view);
  void send_releases();
  void dispatch(const Received& received);
  void take_report(const Message& message);
  void answer_fetch(const Received& received);
  bool done(std::int64_t clock) const;  // mutex_

  Args args_;
  NodeReports nodes_;
  std::map<std::string, MemberInfo> alive_;
  std::int64_t view_revision_ = 0;                // of the view in the registry
  std::map<std::string, ServerReport> statuses_;  // of this epoch's servers, until it is settled
  std::set<std::string> safe_;                    // those whose slices have replicas, after that
  Clock::time_point asked_ = {};
  MemberPeers peers_;                               // servers
  std::optional<Clock::time_point> lonely_since_;   // without workers
  std::optional<Clock::time_point> lacking_since_;  // without servers, or some slice's state
  bool warned_ = false;                             // that the registry does not answer
  std::int64_t told_release_ = -1;
  Clock::time_point told_at_ = {};

  mutable std::mutex mutex_;
  std::condition_variable news_;
  View view_;                                                   // mutex_
  std::vector<SliceState> offered_;                             // mutex_
  bool offers_model_ = false;                                   // mutex_
  std::map<std::int64_t, std::map<int, ShardReport>> reports_;  // by clock; mutex_
  std::vector<ShardProgress> shards_;                           // mutex_
  std::int64_t worst_staleness_ = 0;                            // mutex_
  std::optional<std::pair<std::int64_t, std::string>> stop_;    // mutex_
  std::int64_t released_ = -1;                                  // mutex_
  bool over_ = false;                                           // mutex_
  std::size_t members_ = 0;                                     // servers and workers alive; mutex_
  std::exception_ptr failure_;                                  // mutex_
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace trifold
