#include "parallel/servers/client/server_exchange.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include <spdlog/spdlog.h>

namespace trifold {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookEvery{20};      // for what is due again
constexpr milliseconds kFullQueue{5};       // until a server that takes no more messages is tried again
constexpr std::size_t kSlowLink = 1000;     // bytes a millisecond: so long what was sent may take to arrive
constexpr std::size_t kReportsKept = 4096;  // for a manager that is not there yet

}  // namespace

ServerExchange::ServerExchange(ExchangeOptions options, Mailbox& mailbox, TicketBoard& board)
    : options_(std::move(options)), mailbox_(mailbox), board_(board) {}

const std::string& ServerExchange::server_id(int server) const {
  return server == head_ ? head_id_ : placement_->view.servers[static_cast<std::size_t>(server)].id;
}

ServerExchange::Lines ServerExchange::connect(const MemberInfo& server) {
  const PeerId all = mailbox_.connect(server.address, server.public_key);
  return {.all = all, .pulls = options_.pulls_overtake ? mailbox_.connect(server.address, server.public_key) : all};
}

void ServerExchange::disconnect(const Lines& lines) {
  mailbox_.disconnect(lines.all);
  if (lines.pulls != lines.all) mailbox_.disconnect(lines.pulls);
}

PeerId ServerExchange::line_of(const Flight& flight) const {
  const Lines& lines = servers_[static_cast<std::size_t>(flight.server)];
  return flight.request.kind == MessageKind::pull ? lines.pulls : lines.all;
}

void ServerExchange::connect_servers() {
  std::map<std::string, Lines> peers;
  servers_.clear();
  for (const MemberInfo& server : placement_->view.servers) {
    const auto known = peers_.find(server.id);
    const Lines lines = known != peers_.end() ? known->second : connect(server);
    peers[server.id] = lines;
    servers_.push_back(lines);
  }
  const MemberInfo* head = placement_->view.head_of(options_.worker);
  head_id_ = head == nullptr ? "" : head->id;
  head_ = head == nullptr ? -1 : static_cast<int>(servers_.size());
  if (head != nullptr) {
    const auto known = peers_.find(head->id);
    servers_.push_back(known != peers_.end() ? known->second : connect(*head));
    head_heard_ = known != peers_.end() && head_heard_;
    peers[head->id] = servers_.back();
  }
  for (const auto& [id, lines] : peers_)
    if (!peers.contains(id)) disconnect(lines);
  peers_ = std::move(peers);
  heard_.assign(servers_.size(), Clock::now());
}

void ServerExchange::follow(std::shared_ptr<const SlicePlacement> placement) {
  if (placement_ && placement->view.version <= placement_->view.version) return;
  const bool other_servers = !placement_ || placement->view.epoch != placement_->view.epoch;
  placement_ = std::move(placement);
  const MemberInfo* head = placement_->view.head_of(options_.worker);
  const bool other_head = (head == nullptr ? std::string() : head->id) != head_id_;
  if (other_servers || other_head) {
    const int old_head = head_;
    connect_servers();
    ask_anew(other_head, old_head);
  }
  if (placement_->view.stop_clock) drop_beyond_stop();
  if (!settled()) return;
  for (Request& request : std::exchange(waiting_, {})) dispatch(std::move(request));
}

// Answers to the old ids count for nothing from now on: all is asked of the new owners. A head that stays asks them
// itself.
void ServerExchange::ask_anew(bool other_head, int old_head) {
  std::vector<Request> later = std::exchange(waiting_, {});
  unsent_.clear();
  for (auto& [id, flight] : std::exchange(flights_, {})) {
    if (flight.request.kind == MessageKind::status) continue;
    if (!other_head && old_head >= 0 && flight.server == old_head) {
      flight.server = head_;
      if (!flight.sent) unsent_.push_back(id);
      flights_.emplace(id, std::move(flight));
      continue;
    }
    sent_again_ += flight.sent ? 1 : 0;
    flight.request.again = flight.request.again || flight.sent;
    waiting_.push_back(std::move(flight.request));
  }
  std::ranges::move(later, std::back_inserter(waiting_));
  for (const auto& round : std::exchange(status_rounds_, {})) begin_status(round);
}

void ServerExchange::add(Request request) {
  if (request.kind == MessageKind::status) {
    if (placement_)
      begin_status(request.status);
    else
      waiting_.push_back(std::move(request));
    return;
  }
  if (beyond_stop(request))
    drop(request);
  else if (settled())
    dispatch(std::move(request));
  else
    waiting_.push_back(std::move(request));
}

void ServerExchange::dispatch(Request request) {
  if (request.kind == MessageKind::status) return begin_status(request.status);
  if (head_ >= 0 && (request.kind == MessageKind::push || request.kind == MessageKind::pull))
    return launch(std::move(request), head_);
  for (AddressedRequest& part : split_by_server(std::move(request), *placement_))
    launch(std::move(part.request), part.server);
}

void ServerExchange::launch(Request request, int server) {
  const std::uint64_t id = next_id_++;
  std::size_t bytes = 0;
  for (const SliceWork& item : request.work) bytes += item.encoded.size();
  flights_.emplace(id, Flight{.request = std::move(request),
                              .server = server,
                              .due = Clock::now(),
                              .patience = options_.patience,
                              .sent = false,
                              .bytes = bytes});
  unsent_.push_back(id);
}

void ServerExchange::begin_status(const std::shared_ptr<StatusRound>& round) {
  round->answers.clear();
  status_rounds_.push_back(round);  // without servers it waits for some
  for (std::size_t i = 0; i < placement_->view.servers.size(); ++i)
    launch({.kind = MessageKind::status, .status = round}, static_cast<int>(i));
}

// --- the end of the job

bool ServerExchange::beyond_stop(const Request& request) const {
  if (!placement_ || !placement_->view.stop_clock) return false;
  return (request.kind == MessageKind::push || request.kind == MessageKind::pull) &&
         request.clock >= *placement_->view.stop_clock;
}

// Others do not come so far: a push that would wait for them is not needed, and a pull has no values.
void ServerExchange::drop(const Request& request) {
  const Refused why("stopped", "the job ends before that clock");
  for (const SliceWork& item : request.work)
    if (request.kind == MessageKind::push)
      board_.answer_push(item.ticket, request.shard, request.clock, true);
    else
      board_.fail(item.ticket, why);
}

void ServerExchange::drop_beyond_stop() {
  std::erase_if(flights_, [&](auto& entry) {
    if (!beyond_stop(entry.second.request)) return false;
    drop(entry.second.request);
    return true;
  });
  std::erase_if(waiting_, [&](Request& request) {
    if (!beyond_stop(request)) return false;
    drop(request);
    return true;
  });
}

// --- sending

bool ServerExchange::send(std::uint64_t id, Flight& flight) {
  flight.request.again = flight.request.again || flight.sent;
  Message message = message_of(flight.request, id, placement_->view.epoch);
  if (flight.server == head_) message.fields["view"] = placement_->view.version;
  if (flight.server == head_ && flight.sent) doubt_head();
  const std::uint64_t sent_before = mailbox_.counts().sent_bytes;
  if (!mailbox_.send(line_of(flight), message)) return false;
  if (flight.server == head_) head_traffic_.sent += mailbox_.counts().sent_bytes - sent_before;
  if (flight.sent) {
    sent_again_ += 1;
    flight.patience = std::min(2 * flight.patience, 8 * options_.patience);
  }
  flight.sent = true;
  flight.refused = false;
  flight.due = Clock::now() + flight.patience;
  return true;
}

// In a round that takes long, pushes wait for other workers' and for their replicas. A server that still answers has
// not lost them: sending them again would only take the link from those that are on their way.
void ServerExchange::find_due_again(Clock::time_point now) {
  std::vector<std::size_t> bytes(servers_.size());  // that are not answered
  for (const auto& [id, flight] : flights_)
    if (flight.sent) bytes[static_cast<std::size_t>(flight.server)] += flight.bytes;
  for (const auto& [id, flight] : flights_) {
    if (!flight.sent) continue;
    const auto server = static_cast<std::size_t>(flight.server);
    const milliseconds on_its_way(bytes[server] / kSlowLink);
    const auto silent = std::max(flight.due, heard_[server] + flight.patience) + on_its_way;
    if (now >= (flight.refused ? flight.due : silent)) unsent_.push_back(id);
  }
}

void ServerExchange::send_due() {
  const Clock::time_point now = Clock::now();
  if (now >= next_look_) {
    next_look_ = now + kLookEvery;
    find_due_again(now);
  }
  std::set<int> full;  // servers; what is for them stays in its order
  std::deque<std::uint64_t> rest;
  for (const std::uint64_t id : std::exchange(unsent_, {})) {
    const auto flight = flights_.find(id);
    if (flight == flights_.end()) continue;  // answered meanwhile
    if (full.contains(flight->second.server) || !send(id, flight->second)) {
      full.insert(flight->second.server);
      if (!flight->second.sent) rest.push_back(id);  // one that is due again is found again
    }
  }
  unsent_ = std::move(rest);
  send_reports();
}

milliseconds ServerExchange::pause() const {
  if (!unsent_.empty()) return kFullQueue;
  return flights_.empty() ? milliseconds(500) : kLookEvery;
}

// --- reports

void ServerExchange::report_to(const MemberInfo& manager) {
  if (manager.id == manager_id_) return;
  if (manager_ != 0) mailbox_.disconnect(manager_);
  manager_id_ = manager.id;
  manager_ = manager.address.empty() ? 0 : mailbox_.connect(manager.address, manager.public_key);
  // The one before may have died with what it was told.
  std::ranges::move(reports_, std::back_inserter(told_));
  reports_ = std::exchange(told_, {});
}

void ServerExchange::report(nlohmann::json fields) {
  if (reports_.size() == kReportsKept) reports_.pop_front();
  reports_.push_back({.kind = MessageKind::report, .fields = std::move(fields)});
}

void ServerExchange::send_reports() {
  while (manager_ != 0 && !reports_.empty()) {
    // A manager that was started again at the same address may get what is meant for the one before it.
    reports_.front().fields["manager"] = manager_id_;
    if (!mailbox_.send(manager_, reports_.front())) return;
    if (told_.size() == kReportsKept) told_.pop_front();
    told_.push_back(std::move(reports_.front()));
    reports_.pop_front();
  }
}

}  // namespace trifold
