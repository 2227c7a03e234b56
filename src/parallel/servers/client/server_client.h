// What workers and managers speak to the servers with: pushes and pulls of whole tensors, each a ticket to wait for.
// A thread of its own sends, receives, and asks again when servers come or go; compute threads only hand over.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/servers/audit/audit_log.h"
#include "parallel/servers/client/request.h"
#include "parallel/servers/client/ticket.h"
#include "parallel/servers/slices/gradient_codec.h"
#include "parallel/servers/slices/slice.h"
#include "parallel/servers/view.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

struct ServerClientOptions {
  std::vector<ServedTensor> tensors = {};
  std::string worker = {};  // the id by which views name the head that its pushes and pulls go through; empty: none
  int shards = 1;
  std::int64_t slice_elements = 0;  // chosen
  CodecOptions codec = {};          // of pushes
  MailboxOptions mailbox = {};      // without an address to listen on
  std::size_t group_bytes = 0;      // slices travel together until they are so many; 0: chosen
  // Pulls have connections of their own, so that they are at the servers before the pushes that they wait for, and what
  // is complete comes back while the rest still goes. For sync only: elsewhere a pull should find its shard's own
  // pushes.
  bool pulls_overtake = false;
  int unanswered_clocks = 4;                                     // a shard
  std::chrono::milliseconds patience = std::chrono::seconds(2);  // until what was not answered is sent again
  AuditLog* audit = nullptr;  // is told of acknowledged pushes, by the client's thread; must outlive it
  // Called by the client's thread: a server knows of a newer epoch than set_view() told us of.
  std::function<void(std::int64_t epoch)> on_newer_epoch = {};
};

struct PushArgs {
  int tensor = 0;
  int shard = 0;
  std::int64_t clock = 0;
  double weight = 1;
  double rate = 0;  // learning
};

struct PullInto {
  int tensor = 0;
  std::span<float> values = {};            // all of it
  std::shared_ptr<const void> keeps = {};  // lives until nothing more is written there; null: the caller sees to it
};

class ServerClient {
 public:
  explicit ServerClient(ServerClientOptions options);
  ~ServerClient();  // stop()
  ServerClient(const ServerClient&) = delete;
  ServerClient& operator=(const ServerClient&) = delete;

  const std::vector<Slice>& slices() const;

  // The newest one counts. Until there is a settled one, everything waits.
  void set_view(const View& view);

  // Takes the values before it returns; waits while too many clocks of the shard are unanswered. Small tensors go when
  // more have come, or with flush(), pull() or wait(). Several threads may push, each tensor of a shard one at a time.
  ServerTicket push(const PushArgs& args, std::span<const float> values);
  void flush();
  // One ticket a tensor. The memory must stay until the ticket is done or has failed itself, or stop() has returned.
  std::vector<ServerTicket> pull(int shard, std::int64_t clock, std::span<const PullInto> wanted);

  // Throws Refused where a server will not, or the client is stopped meanwhile.
  void wait(const ServerTicket& ticket);
  bool wait_for(const ServerTicket& ticket, std::chrono::milliseconds timeout);  // false: not done in that time
  // Whether push() would not have to wait.
  bool wait_for_room(int shard, std::int64_t clock, std::chrono::milliseconds timeout);
  void wait_for_pushes();  // all that were made
  bool done(const ServerTicket& ticket) const;
  bool late(
      const ServerTicket& ticket) const;  // of a push that is done: its round had ended without some of its slices

  std::int64_t staleness(const ServerTicket& ticket) const;  // of a pull that is done: of its stalest slice, in clocks

  // What every server of the newest view holds, settled or not. Asked anew when the servers change.
  std::vector<ServerStatus> status();
  // By shard: clocks whose pushes are in every slice, as far as there are any. Waits until every slice has a server
  // that holds it.
  std::vector<std::int64_t> least_applied();
  // Everything, with the optimiser's state: now (-1), or as it was at a cut. Waits for slices that have not reached the
  // cut. Refused as "gone" where the cut is not kept any more.
  FetchedModel fetch_all(std::int64_t cut = -1);

  // To the manager that leads; sent when one is known, and never again.
  void set_manager(const MemberInfo& manager);
  void report(nlohmann::json fields);

  ClientCounts counts() const;

  // Whoever waits gets a Refused ("stopped"), with these words, and so does every later call.
  void stop(const std::string& why = "the client of the servers was stopped");

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trifold
