// The side of a client that faces the servers: sends requests to whoever owns their slices, and again when that
// changes or no answer comes, until all are answered. One thread uses it, the one of its mailbox.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/servers/audit/audit_log.h"
#include "parallel/servers/client/request.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

struct ExchangeOptions {
  std::vector<Slice> slices = {};
  std::string worker = {};      // the id by which views name its head; empty: it has none
  bool pulls_overtake = false;  // as ServerClientOptions has it
  // Of a server's silence, until a request is sent again; doubles three times. Longer while much is on its way there.
  std::chrono::milliseconds patience = std::chrono::seconds(2);
  AuditLog* audit = nullptr;
  // A server knows of a newer epoch than we do.
  std::function<void(std::int64_t epoch)> on_newer_epoch = {};
};

class ServerExchange {
 public:
  using Clock = std::chrono::steady_clock;

  // Both must outlive it.
  ServerExchange(ExchangeOptions options, Mailbox& mailbox, TicketBoard& board);

  void follow(std::shared_ptr<const SlicePlacement> placement);
  void add(Request request);
  void report_to(const MemberInfo& manager);
  void report(nlohmann::json fields);

  void send_due();
  void take(const Received& received);
  // At most so long may pass until send_due() is called again.
  std::chrono::milliseconds pause() const;
  std::uint64_t sent_again() const { return sent_again_; }
  // Bytes that stay on this host.
  struct HeadTraffic {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  const HeadTraffic& head_traffic() const { return head_traffic_; }

 private:
  // Connections to a server, the same one twice unless pulls overtake.
  struct Lines {
    PeerId all = 0;
    PeerId pulls = 0;
  };
  // A request on its way.
  struct Flight {
    Request request;
    int server = 0;
    Clock::time_point due;  // to be sent (again)
    std::chrono::milliseconds patience;
    bool sent = false;
    bool refused = false;   // it is due whatever the server says to others
    std::size_t bytes = 0;  // of its payload
  };
  using Flights = std::map<std::uint64_t, Flight>;

  bool settled() const { return placement_ && placement_->view.settled && !placement_->owner.empty(); }
  void connect_servers();
  void ask_anew(bool other_head, int old_head);
  Lines connect(const MemberInfo& server);
  void disconnect(const Lines& lines);
  PeerId line_of(const Flight& flight) const;
  void dispatch(Request request);
  void launch(Request request, int server);
  void begin_status(const std::shared_ptr<StatusRound>& round);
  bool beyond_stop(const Request& request) const;
  void drop(const Request& request);
  void drop_beyond_stop();
  bool send(std::uint64_t id, Flight& flight);
  void find_due_again(Clock::time_point now);
  void send_reports();
  void fail(Request request, const Refused& why);

  void hear_head(PeerId from);
  void doubt_head();
  void take_push_answers(const Received& received);
  void acknowledged(const Request& request, bool late);
  void take_slices(Flight& flight, const Message& answer);
  void take_status(Flight& flight, const Message& answer);
  void take_refusal(Flights::iterator flight, const Message& answer);
  const std::string& server_id(int server) const;

  ExchangeOptions options_;
  Mailbox& mailbox_;
  TicketBoard& board_;
  std::shared_ptr<const SlicePlacement> placement_;  // null: no view yet
  std::map<std::string, Lines> peers_;               // by server's id
  std::vector<Lines> servers_;                       // of the placement, and last the head, where there is one
  int head_ = -1;  // index into servers_ of the worker that takes all pushes and pulls; -1: slice owners take them
  std::string head_id_;
  bool head_heard_ = false;  // it has ever said anything; else somebody is told, once
  HeadTraffic head_traffic_;
  std::uint64_t received_before_ = 0;     // bytes, by the mailbox, of earlier messages
  std::vector<Clock::time_point> heard_;  // by server: when it last said anything
  std::uint64_t next_id_ = 1;
  Flights flights_;
  std::vector<Request> waiting_;                             // for servers
  std::vector<std::shared_ptr<StatusRound>> status_rounds_;  // under way
  std::deque<std::uint64_t> unsent_;                         // flights that are due now
  Clock::time_point next_look_ = {};                         // for flights that are due again
  std::uint64_t sent_again_ = 0;
  std::string manager_id_;
  PeerId manager_ = 0;
  std::deque<Message> reports_;  // not sent yet
  std::deque<Message> told_;     // to managers so far: the next one hears of it, too
};

}  // namespace trifold
