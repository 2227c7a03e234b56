#include "parallel/processes/watch.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/terminal_guard.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

constexpr auto kMeetingPatience = 60s;  // for processes that a cluster starts one after the other
constexpr auto kTick = 200ms;           // steps are told this often
constexpr auto kAnswerTime = 2s;        // for what a rank is asked when the job hangs
constexpr auto kTellTime = 3s;          // for process 0 to tell the user why the job ends
constexpr auto kGrace = 5s;             // for threads to stop after that

std::string encode_message(const char* kind, std::string text = {}, std::int64_t number = 0) {
  const nlohmann::json message = {{"kind", kind}, {"text", std::move(text)}, {"number", number}};
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // an error may quote any bytes
}

// Empty where the caller says nothing.
std::string first_line(LineSocket& socket) {
  std::vector<std::string> lines;
  pollfd event{socket.descriptor(), POLLIN, 0};
  while (lines.empty())
    if (::poll(&event, 1, static_cast<int>(std::chrono::milliseconds(kAnswerTime).count())) <= 0 ||
        !socket.receive(lines))
      return "";
  return lines.front();
}

}  // namespace

std::vector<LineSocket> meet_others(LineListener& listener, int size, const std::string& secret) {
  std::vector<LineSocket> found;
  for (int rank = 1; rank < size; ++rank) found.emplace_back(-1);
  for (int missing = size - 1; missing > 0;) {
    LineSocket caller = listener.accept(kMeetingPatience);
    const nlohmann::json hello = nlohmann::json::parse(first_line(caller), nullptr, false);
    if (hello.is_discarded() || !hello.is_object() || hello.value("text", "") != secret) continue;
    const int rank = hello.value("number", 0);
    if (rank < 1 || rank >= size || found[static_cast<std::size_t>(rank - 1)].descriptor() >= 0)
      fail_runtime("a second process says that it is rank {} of {}", rank, size);
    found[static_cast<std::size_t>(rank - 1)] = std::move(caller);
    --missing;
  }
  return found;
}

std::vector<LineSocket> meet_first(const std::string& host, int port, int rank, const std::string& secret) {
  std::vector<LineSocket> found;
  found.push_back(connect_to(host, port, kMeetingPatience));
  found.front().send(encode_message("hello", secret, rank));
  return found;
}

Watch::Watch(Args args)
    : args_(std::move(args)), placement_{.processes = args_.processes}, wake_descriptor_(::eventfd(0, EFD_CLOEXEC)) {
  for (LineSocket& socket : args_.connections) {
    const int process = args_.process > 0 ? 0 : static_cast<int>(peers_.size()) + 1;
    peers_.push_back({.socket = std::move(socket), .process = process});
  }
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  stop();
}

void Watch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  if (wake_descriptor_ >= 0) ::close(std::exchange(wake_descriptor_, -1));
}

void Watch::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_descriptor_, &one, sizeof one);  // can fail only when awake
}

void Watch::set_placement(const RankPlacement& placement) {
  const std::lock_guard lock(mutex_);
  placement_ = placement;
}

void Watch::set_status(std::function<std::map<int, RankStatus>()> by_rank) {
  const std::lock_guard lock(mutex_);
  status_ = std::move(by_rank);
}

// --- what this process's other threads call

void Watch::fail(Fault fault, const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (end_ || left_) return;
  if (args_.process == 0) return end_all(fault, reason);
  if (peers_.front().open && peers_.front().socket.send(encode_message("failed", reason, static_cast<int>(fault))))
    changed_.wait_for(lock, kTellTime, [&] { return end_.has_value(); });
  if (end_) return;
  args_.say(reason);
  end_here(fault, reason);
}

void Watch::stalled(double seconds) {
  const std::lock_guard lock(mutex_);
  if (end_ || left_) return;
  if (args_.process == 0)
    begin_inquiry(seconds);
  else
    peers_.front().socket.send(encode_message("stalled", "", static_cast<std::int64_t>(seconds)));
  wake();
}

void Watch::stop_if_ended() const {
  if (!has_ended_) return;
  const std::lock_guard lock(mutex_);
  throw Error(end_->fault == Fault::input ? Fault::input : Fault::rank_lost, end_->reason);
}

void Watch::publish(const std::string& name, const std::string& text) {
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) peer.socket.send(encode_message("value", nlohmann::json({name, text}).dump()));
}

std::string Watch::look_up(const std::string& name, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto known = [&] { return end_ || values_.contains(name); };
  if (!changed_.wait_for(lock, patience, known)) fail_runtime("process 0 has not said '{}' in time", name);
  if (end_) throw Error(Fault::rank_lost, end_->reason);
  return values_.at(name);
}

void Watch::leave() {
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    for (Peer& peer : peers_)
      if (peer.open) peer.socket.send(encode_message("bye"));
  }
  stop();
}

void Watch::await_others(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (Peer& peer : peers_) {
    std::vector<std::string> lines;
    while (peer.open) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      pollfd event{peer.socket.descriptor(), POLLIN, 0};
      if (left.count() <= 0 || (::poll(&event, 1, static_cast<int>(left.count())) == 0)) return;
      peer.open = peer.socket.receive(lines);
    }
  }
}

// --- the watch's thread

void Watch::run() {
  for (;;) {
    wait_for_events();
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    send_step();
    finish_inquiry();
    exit_if_overdue();
  }
}

void Watch::wait_for_events() {
  std::vector<pollfd> events;
  std::vector<Peer*> whose;
  events.push_back({wake_descriptor_, POLLIN, 0});
  for (Peer& peer : peers_) {  // only this thread closes a connection
    if (!peer.open) continue;
    events.push_back({peer.socket.descriptor(), POLLIN, 0});
    whose.push_back(&peer);
  }
  if (::poll(events.data(), events.size(), static_cast<int>(std::chrono::milliseconds(kTick).count())) <= 0) return;
  if (events[0].revents != 0) {
    std::uint64_t woken = 0;
    [[maybe_unused]] const ssize_t read = ::read(wake_descriptor_, &woken, sizeof woken);
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 1; i < events.size(); ++i)
    if (events[i].revents != 0 && !stopping_) receive_from(*whose[i - 1]);
}

void Watch::receive_from(Peer& peer) {
  std::vector<std::string> lines;
  peer.open = peer.socket.receive(lines);
  for (const std::string& line : lines) handle(peer, line);
  if (!peer.open) handle_lost(peer);
}

void Watch::handle(Peer& peer, const std::string& line) {
  const nlohmann::json message = nlohmann::json::parse(line);
  const auto kind = message.at("kind").get<std::string>();
  const auto text = message.at("text").get<std::string>();
  const auto number = message.at("number").get<std::int64_t>();
  if (kind == "step") {
    peer.step = number;
  } else if (kind == "bye") {
    peer.left = true;
  } else if (kind == "failed") {
    end_all(static_cast<Fault>(number), text);
  } else if (kind == "stalled") {
    begin_inquiry(static_cast<double>(number));
  } else if (kind == "status") {
    peer.statuses = decode_statuses(text);
  } else if (kind == "ask") {
    peer.socket.send(encode_message("status", encode_statuses(own_statuses())));
  } else if (kind == "end") {
    end_here(static_cast<Fault>(number), text);
  } else if (kind == "value") {
    const nlohmann::json pair = nlohmann::json::parse(text);
    values_[pair.at(0)] = pair.at(1);
    changed_.notify_all();
  }
}

void Watch::handle_lost(Peer& peer) {
  if (peer.left || left_ || end_) return;
  const std::string lost = name_of_process(placement_, peer.process);
  if (args_.process == 0)
    return end_all(Fault::rank_lost,
                   fmt::format("{} was lost; step {} was the last that it reported", lost, peer.step));
  const std::string reason =
      fmt::format("{} was lost; step {} was the last of {}", lost, step(), name_of_process(placement_, args_.process));
  if (args_.process == 1) args_.say(reason);  // for all others
  end_here(Fault::rank_lost, reason);
}

void Watch::send_step() {
  if (args_.process == 0 || end_ || sent_step_ == step_) return;
  sent_step_ = step_;
  peers_.front().socket.send(encode_message("step", "", sent_step_));
}

std::vector<RankStatus> Watch::own_statuses() const {
  std::map<int, RankStatus> by_rank = status_ ? status_() : std::map<int, RankStatus>();
  std::vector<RankStatus> statuses;
  for (int i = 0; i < placement_.ranks_each; ++i) {
    statuses.push_back(std::move(by_rank[placement_.first_of(args_.process) + i]));
    statuses.back().step = step_;
  }
  return statuses;
}

void Watch::begin_inquiry(double seconds) {
  if (inquiry_ || end_) return;
  inquiry_ = Inquiry{seconds, Clock::now() + kAnswerTime};
  for (Peer& peer : peers_)
    if (peer.open) peer.socket.send(encode_message("ask"));
}

void Watch::finish_inquiry() {
  if (!inquiry_ || end_) return;
  const bool all = std::ranges::all_of(peers_, [](const Peer& peer) { return peer.statuses.has_value(); });
  if (!all && Clock::now() < inquiry_->deadline) return;
  std::vector<std::optional<RankStatus>> of_ranks;
  std::vector<std::int64_t> steps;
  const auto add = [&](const std::optional<std::vector<RankStatus>>& statuses, std::int64_t step) {
    for (int i = 0; i < placement_.ranks_each; ++i) {
      const auto rank = static_cast<std::size_t>(i);
      of_ranks.push_back(statuses && rank < statuses->size() ? std::optional((*statuses)[rank]) : std::nullopt);
      steps.push_back(step);
    }
  };
  add(own_statuses(), step_);
  for (const Peer& peer : peers_) add(peer.statuses, peer.step);
  end_all(Fault::rank_lost, stall_report(of_ranks, steps, inquiry_->seconds));
}

// Of process 0.
void Watch::end_all(Fault fault, const std::string& reason) {
  if (end_ || left_) return;
  args_.say(reason);
  for (Peer& peer : peers_)
    if (peer.open) peer.socket.send(encode_message("end", reason, static_cast<int>(fault)));
  end_here(fault, reason);
}

void Watch::end_here(Fault fault, const std::string& reason) {
  if (end_) return;
  end_ = End{fault, reason};
  ended_at_ = Clock::now();
  has_ended_ = true;
  changed_.notify_all();
}

void Watch::exit_if_overdue() {
  if (!end_ || !args_.may_exit || Clock::now() < ended_at_ + kGrace) return;
  restore_terminal();
  ::_exit(Error(end_->fault == Fault::input ? Fault::input : Fault::rank_lost, "").exit_code());
}

}  // namespace trifold
