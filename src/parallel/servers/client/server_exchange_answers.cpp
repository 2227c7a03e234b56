// What servers, or the head of the host, answer to a client's requests.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <spdlog/spdlog.h>

#include "parallel/servers/client/server_exchange.h"
#include "parallel/servers/slices/gradient_codec.h"
#include "parallel/servers/wire/payload_parts.h"

namespace trifold {
namespace {

// Until a server that has not seen our view yet is asked again.
constexpr std::chrono::milliseconds kServerBehind{50};

}  // namespace

void ServerExchange::hear_head(PeerId from) {
  const std::uint64_t before = std::exchange(received_before_, mailbox_.counts().received_bytes);
  if (head_ < 0) return;
  const Lines& lines = servers_[static_cast<std::size_t>(head_)];
  if (from != lines.all && from != lines.pulls) return;
  head_traffic_.received += received_before_ - before;
  head_heard_ = true;
}

void ServerExchange::doubt_head() {
  if (std::exchange(head_heard_, true)) return;
  spdlog::warn("worker {} of this host does not answer: workers that say the same --host must be on one machine",
               head_id_);
}

void ServerExchange::take(const Received& received) {
  hear_head(received.from);
  const Message& answer = received.message;
  if (answer.kind == MessageKind::push_answer) return take_push_answers(received);
  const auto id = answer.fields.find("id");
  if (id == answer.fields.end() || !id->is_number_integer()) return;
  const auto found = flights_.find(id->get<std::uint64_t>());
  if (found == flights_.end()) return;  // answered before, or asked of others since
  Flight& flight = found->second;
  if (line_of(flight) != received.from) return;
  heard_[static_cast<std::size_t>(flight.server)] = Clock::now();
  try {
    const MessageKind kind = flight.request.kind;
    if (answer.kind == MessageKind::refusal)
      return take_refusal(found, answer);
    else if (answer.kind == MessageKind::status_answer && kind == MessageKind::status)
      take_status(flight, answer);
    else if ((answer.kind == MessageKind::pull_answer && kind == MessageKind::pull) ||
             (answer.kind == MessageKind::fetch_answer && kind == MessageKind::fetch))
      take_slices(flight, answer);
    else
      fail_runtime("a message of kind {}", static_cast<int>(answer.kind));
    if (flight.request.work.empty()) flights_.erase(found);
  } catch (const std::exception& error) {
    Request request = std::move(flight.request);
    const Refused why(
        "bad", fmt::format("the answer of server {} makes no sense: {}", server_id(flight.server), error.what()));
    flights_.erase(found);
    fail(std::move(request), why);
  }
}

// Of several pushes at once. Whatever else it says is none of a server's, and what was not answered is asked again.
void ServerExchange::take_push_answers(const Received& received) {
  std::vector<std::uint64_t> answered;
  std::set<std::uint64_t> late;
  try {
    received.message.fields.at("ids").get_to(answered);
    received.message.fields.at("late").get_to(late);
  } catch (const nlohmann::json::exception&) {
    return;
  }
  for (const std::uint64_t id : answered) {
    const auto found = flights_.find(id);
    if (found == flights_.end()) continue;  // answered before, or asked of others since
    const Flight& flight = found->second;
    if (flight.request.kind != MessageKind::push || line_of(flight) != received.from) continue;
    heard_[static_cast<std::size_t>(flight.server)] = Clock::now();
    acknowledged(flight.request, late.contains(id));
    flights_.erase(found);
  }
}

void ServerExchange::acknowledged(const Request& request, bool late) {
  if (request.relay != nullptr) return request.relay->pushed(request, late);
  if (options_.audit != nullptr) {  // before anybody goes on because of it
    std::vector<int> slices;
    for (const SliceWork& item : request.work) slices.push_back(item.slice);
    options_.audit->acknowledged({request.shard, request.clock}, slices, late);
  }
  for (const SliceWork& item : request.work) board_.answer_push(item.ticket, request.shard, request.clock, late);
}

// Of a pull or a fetch. A slice that is not waited for came before, in an answer to the same request sent twice.
void ServerExchange::take_slices(Flight& flight, const Message& answer) {
  Request& request = flight.request;
  const bool pull = request.kind == MessageKind::pull;
  const nlohmann::json& slices = answer.fields.at("slices");
  const std::vector<Payload> parts = payload_parts(answer, slices.size());
  std::vector<std::int64_t> oldest(slices.size());
  if (pull) oldest = answer.fields.at("oldest").get<std::vector<std::int64_t>>();
  if (oldest.size() != slices.size()) fail_runtime("{} clocks of {} slices", oldest.size(), slices.size());
  // Answers are in the order of the request, mostly: the next one's is behind the last one's.
  std::size_t expected = 0;
  std::vector<bool> answered(request.work.size());
  const auto find = [&](int slice) -> SliceWork* {
    for (std::size_t tried = 0; tried < answered.size(); ++tried) {
      const std::size_t at = (expected + tried) % answered.size();
      if (request.work[at].slice != slice || answered[at]) continue;
      answered[at] = true;
      expected = at + 1;
      return &request.work[at];
    }
    return nullptr;
  };
  const auto drop_answered = [&] {
    std::size_t at = 0;
    std::erase_if(request.work, [&](const SliceWork&) { return answered[at++]; });
  };
  const auto take = [&](std::size_t i, int slice, const SliceWork& item) {
    if (request.relay != nullptr) return request.relay->pulled(request, slice, parts[i], oldest[i]);
    if (!pull) {
      put_fetched(*request.fetched, options_.slices[static_cast<std::size_t>(slice)], slices[i], parts[i].bytes());
      return board_.answer(item.ticket);
    }
    decode(parts[i].bytes(), item.into);
    board_.answer_pull(item.ticket, std::max<std::int64_t>(0, request.clock - oldest[i]));
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int slice = pull ? slices[i].get<int>() : slices[i].at("slice").get<int>();
    const SliceWork* item = find(slice);
    if (item == nullptr) continue;
    try {
      take(i, slice, *item);
    } catch (...) {
      answered[static_cast<std::size_t>(item - request.work.data())] = false;  // it is to fail with the rest
      drop_answered();
      throw;
    }
  }
  drop_answered();
}

void ServerExchange::take_status(Flight& flight, const Message& answer) {
  StatusRound& round = *flight.request.status;
  round.answers.push_back(status_from(answer));
  if (round.answers.size() < placement_->view.servers.size()) return;
  const ServerTicket ticket = round.ticket;
  std::erase(status_rounds_, flight.request.status);
  board_.answer(ticket);
}

void ServerExchange::take_refusal(Flights::iterator found, const Message& answer) {
  Flight& flight = found->second;
  const auto code = answer.fields.value("code", std::string());
  const std::string why = answer.fields.value("why", std::string());
  if (code == "epoch" || code == "stopping") {
    const std::int64_t ours = placement_->view.epoch;
    const std::int64_t theirs = answer.fields.value("epoch", ours + 1);
    if (code == "epoch" && theirs <= ours) {
      flight.refused = true;
      flight.due = Clock::now() + kServerBehind;  // it has not seen our view yet, or not that it is settled
    } else if (theirs > ours && options_.on_newer_epoch) {
      options_.on_newer_epoch(theirs);  // what comes of it sends this again
    }
    return;
  }
  if (code == "early") {
    flight.refused = true;
    flight.due = Clock::now() + kServerBehind;
    return;
  }
  Request request = std::move(flight.request);
  const Refused refused(code, fmt::format("server {} refused: {}", server_id(flight.server), why));
  flights_.erase(found);
  fail(std::move(request), refused);
}

void ServerExchange::fail(Request request, const Refused& why) {
  if (request.relay != nullptr) return request.relay->refused(request, why);
  for (const SliceWork& item : request.work)
    if (request.kind == MessageKind::push)
      board_.fail_push(item.ticket, request.shard, request.clock, why);
    else
      board_.fail(item.ticket, why);
  if (request.status != nullptr) {
    std::erase(status_rounds_, request.status);
    board_.fail(request.status->ticket, why);
  }
  // Nobody waits for the other slices of these tickets, and the memory they would come to may be gone.
  const auto in_vain = [&](const SliceWork& item) { return board_.failed(item.ticket); };
  for (auto& [id, flight] : flights_)
    if (flight.request.kind != MessageKind::push) std::erase_if(flight.request.work, in_vain);
  for (Request& waiting : waiting_)
    if (waiting.kind != MessageKind::push) std::erase_if(waiting.work, in_vain);
  std::erase_if(flights_, [&](const auto& entry) {
    const Request& other = entry.second.request;
    return other.kind == MessageKind::status ? board_.failed(other.status->ticket) : other.work.empty();
  });
}

}  // namespace trifold
