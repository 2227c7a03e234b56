#include "parallel/ps/manager/cluster_manager.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "runtime/core/error.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::milliseconds kAskAgain{100};
constexpr std::chrono::seconds kLonely{30};
constexpr std::chrono::seconds kTellAgain{1};
constexpr int kMostAtOnce = 256;

std::vector<std::string> ids_of(const std::map<std::string, MemberInfo>& members, const std::string& role) {
  std::vector<std::string> ids;
  for (const auto& [id, member] : members)
    if (member.role == role) ids.push_back(id);
  return ids;
}

}  // namespace

ClusterManager::ClusterManager(Args args)
    : args_(std::move(args)),
      nodes_(args_.participation, args_.backup),
      latest_(static_cast<std::size_t>(args_.participation.shards), -1) {
  if (const auto entry = args_.registry->get(kViewName)) {
    view_revision_ = entry->revision;
    view_ = view_from_text(entry->text);
    took_over_ = view_.epoch > 1 || (view_.epoch == 1 && view_.settled);
    if (view_.stop_clock) stop_ = {*view_.stop_clock, view_.stopped_by};
  }
  thread_ = std::thread([this] { run(); });
}

ClusterManager::~ClusterManager() {
  ending_ = true;
  args_.mailbox->wake();
  thread_.join();
}

void ClusterManager::run() {
  try {
    while (!ending_) {
      if (args_.leads && !args_.leads()) fail_runtime("this manager's lease has run out: another may lead the job now");
      // However much comes, members are looked at in between.
      auto received = args_.mailbox->receive(kLook);
      for (int taken = 0; received && taken < kMostAtOnce; ++taken) {
        dispatch(*received);
        received = args_.mailbox->receive({});
      }
      if (received) dispatch(*received);
      if (args_.service != nullptr)
        for (const RegistryAnswer& answer : args_.service->tick(Clock::now()))
          args_.mailbox->send(answer.to, answer.message);
      send_releases();
      look_at_members();
      reconsider();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    news_.notify_all();
  }
}

// --- who is there

void ClusterManager::look_at_members() {
  alive_.clear();
  for (const RegistryEntry& entry : args_.registry->list(kMembersPrefix)) {
    MemberInfo member = member_from_text(entry.text);
    alive_.emplace(member.id, std::move(member));
  }
  const auto members = static_cast<std::size_t>(
      std::ranges::count_if(alive_, [](const auto& entry) { return entry.second.role != "manager"; }));
  const std::lock_guard lock(mutex_);
  if (std::exchange(members_, members) != members) news_.notify_all();
}

void ClusterManager::reconsider() {
  View view = this->view();
  std::vector<MemberInfo> servers;
  for (const std::string& id : ids_of(alive_, "server")) servers.push_back(alive_.at(id));
  const std::vector<std::string> workers = ids_of(alive_, "worker");
  {
    const std::lock_guard lock(mutex_);
    if (offered_.empty()) return;  // nothing to train yet
    if (stop_) {
      view.stop_clock = stop_->first;
      view.stopped_by = stop_->second;
    }
    view.over = over_;
  }
  view.leader = args_.self;  // workers report to it, also if nothing else is new
  const bool first = view.epoch == 0;
  if (first && (static_cast<int>(servers.size()) < args_.servers || static_cast<int>(workers.size()) < args_.workers))
    return;
  // At the end members leave one after the other, and nothing is to be moved for them.
  if (view.over) {
    if (view != this->view()) publish(std::move(view));
    return;
  }
  if (workers.empty() && !view.stop_clock) {
    if (!lonely_since_) lonely_since_ = Clock::now();
    if (Clock::now() - *lonely_since_ > kLonely) fail_runtime("all workers are gone; resume the run to go on");
  } else {
    lonely_since_.reset();
  }
  if (servers != view.servers) return begin_change(std::move(servers));
  if (!view.settled) {
    if (Clock::now() - asked_ > kAskAgain) ask_for_status();
    return;
  }
  if (!view.safe && Clock::now() - asked_ > kAskAgain) ask_for_status();
  view.workers = workers;
  if (view.shard_owners.empty()) view.shard_owners.resize(static_cast<std::size_t>(args_.participation.shards));
  view.shard_owners = assign_shards(view.shard_owners, workers);
  if (args_.combine) {
    std::vector<MemberInfo> members;
    for (const std::string& id : workers) members.push_back(alive_.at(id));
    view.heads = assign_heads(view.heads, members, view.shard_owners);
  }
  if (view != this->view()) publish(std::move(view));
}

void ClusterManager::begin_change(std::vector<MemberInfo> servers) {
  if (servers.empty()) fail_runtime("all servers are gone; resume the run from its last checkpoint to go on");
  View view = this->view();
  spdlog::info("{} server{}: {}", servers.size(), servers.size() == 1 ? "" : "s",
               view.epoch == 0 ? "the model is on its way" : "slices move");
  view.epoch += 1;
  view.settled = view.safe = false;
  view.servers = std::move(servers);
  view.sources.clear();
  publish(std::move(view));
  statuses_.clear();
  ask_for_status();
}

void ClusterManager::ask_for_status() {
  asked_ = Clock::now();
  const View view = this->view();
  for (const MemberInfo& server : view.servers) {
    if (view.settled ? safe_.contains(server.id) : statuses_.contains(server.id)) continue;
    args_.mailbox->send(peer_of(server), {.kind = MessageKind::status, .fields = {{"id", 0}}});
  }
}

PeerId ClusterManager::peer_of(const MemberInfo& server) {
  const auto [peer, added] = peers_.try_emplace(server.address, 0);
  if (added) peer->second = args_.mailbox->connect(server.address, server.public_key);
  return peer->second;
}

void ClusterManager::take_status(const Message& message) {
  const View view = this->view();
  if (message.fields.at("epoch").get<std::int64_t>() != view.epoch) return;
  if (view.settled) {
    if (message.fields.value("safe", false)) take_safe(message.fields.at("server"));
    return;
  }
  HeldVersions& held = statuses_[message.fields.at("server")];
  for (const nlohmann::json& slice : message.fields.at("slices")) {
    const int number = slice.at("slice");
    if (number < 0 || number >= static_cast<int>(args_.layout.slices.size())) continue;  // of another model
    held[number] = slice.at("version").get<std::int64_t>();
  }
  const bool all =
      std::ranges::all_of(view.servers, [&](const MemberInfo& server) { return statuses_.contains(server.id); });
  if (all) settle();
}

// Whether the first values are not the model any more: what servers have lost then is lost.
bool ClusterManager::trained() const {
  const std::lock_guard lock(mutex_);
  const bool changed = std::ranges::any_of(statuses_, [&](const auto& server) {
    return std::ranges::any_of(server.second, [&](const auto& held) {
      return held.second > offered_[static_cast<std::size_t>(held.first)].version;
    });
  });
  return took_over_ || !offers_model_ || !reports_.empty() || changed;
}

void ClusterManager::settle() {
  View view = this->view();
  view.sources = choose_sources(static_cast<int>(args_.layout.slices.size()), statuses_);
  const auto lost = std::ranges::count(view.sources, std::string());
  if (lost > 0 && trained())
    fail_runtime("{} of {} slices are on no server any more; resume the run from its last checkpoint", lost,
                 view.sources.size());
  std::ranges::replace(view.sources, std::string(), args_.self.id);
  view.settled = true;
  safe_.clear();
  publish(std::move(view));
}

void ClusterManager::take_safe(const std::string& server) {
  View view = this->view();
  safe_.insert(server);
  if (view.safe || !std::ranges::all_of(view.servers, [&](const auto& each) { return safe_.contains(each.id); }))
    return;
  view.safe = true;
  publish(std::move(view));
}

// Another manager may have written since: then it leads, and this one has nothing to say any more.
void ClusterManager::publish(View view) {
  view.version += 1;
  view.leader = args_.self;
  if (view.begun_by.empty()) view.begun_by = args_.self.id;
  const auto revision = args_.registry->put_if(kViewName, view_revision_, to_text(view));
  if (!revision) fail_runtime("another manager leads this job now");
  view_revision_ = *revision;
  if (args_.on_view) args_.on_view(view);
  const std::lock_guard lock(mutex_);
  view_ = std::move(view);
  news_.notify_all();
}

// A server that does not hear of it would keep workers waiting for ever: it is told again and again.
void ClusterManager::send_releases() {
  std::int64_t clock = -1;
  View view;
  {
    const std::lock_guard lock(mutex_);
    clock = released_;
    view = view_;
  }
  if (clock < 0 || !view.settled || (clock == told_release_ && Clock::now() - told_at_ < kTellAgain)) return;
  told_release_ = clock;
  told_at_ = Clock::now();
  for (const MemberInfo& server : view.servers)
    args_.mailbox->send(peer_of(server),
                        {.kind = MessageKind::release, .fields = {{"cut", clock}, {"leader", args_.self.id}}});
}

// --- messages

void ClusterManager::dispatch(const Received& received) {
  try {
    switch (received.message.kind) {
      case MessageKind::registry:
        if (args_.service == nullptr) return;
        for (const RegistryAnswer& answer : args_.service->handle(received.from, received.message, Clock::now()))
          args_.mailbox->send(answer.to, answer.message);
        return;
      case MessageKind::status_answer:
        return take_status(received.message);
      case MessageKind::report:
        return take_report(received.message);
      case MessageKind::fetch:
        return answer_fetch(received);
      default:
        return;
    }
  } catch (const nlohmann::json::exception& error) {
    spdlog::warn("the manager was sent a message that lacks something: {}", error.what());
  } catch (const Error& error) {
    if (error.fault() == Fault::runtime && received.message.kind == MessageKind::status_answer) throw;
    spdlog::warn("the manager refused a message: {}", error.what());
  }
}

void ClusterManager::take_report(const Message& message) {
  const int shard = message.fields.at("shard");
  const std::int64_t clock = message.fields.at("clock");
  if (shard < 0 || shard >= args_.participation.shards || nodes_.take(shard, clock, message.fields)) return;
  ShardReport report{.loss = message.fields.at("loss"),
                     .correct = message.fields.at("correct"),
                     .samples = message.fields.at("samples"),
                     .step_ms = message.fields.at("step_ms"),
                     .staleness = message.fields.at("staleness"),
                     .late = message.fields.at("late"),
                     .sent_bytes = message.fields.at("sent_bytes"),
                     .received_bytes = message.fields.at("received_bytes"),
                     .peak_bytes = message.fields.at("peak_bytes"),
                     .arrived = Clock::now()};
  const std::lock_guard lock(mutex_);
  latest_[static_cast<std::size_t>(shard)] = std::max(latest_[static_cast<std::size_t>(shard)], clock);
  worst_staleness_ = std::max(worst_staleness_, report.staleness);
  // A worker that took a shard over says so with no samples.
  if (report.samples > 0) reports_[clock].emplace(shard, report);
  news_.notify_all();
}

void ClusterManager::answer_fetch(const Received& received) {
  Message answer{.kind = MessageKind::fetch_answer,
                 .fields = {{"id", received.message.fields.at("id")}, {"epoch", received.message.fields.at("epoch")}}};
  {
    const std::lock_guard lock(mutex_);
    if (offered_.empty() || !offers_model_) return;
    std::vector<NumberedState> states;
    for (const int slice : take_slices(received.message, args_.layout))
      states.emplace_back(slice, offered_[static_cast<std::size_t>(slice)]);
    put_states(answer, states, args_.layout);
  }
  args_.mailbox->send(received.from, answer);
}

// --- from other threads

void ClusterManager::offer(std::vector<SliceState> states, Offer what) {
  TRIFOLD_CHECK(states.size() == args_.layout.slices.size(), "{} states of {} slices", states.size(),
                args_.layout.slices.size());
  const std::lock_guard lock(mutex_);
  offered_ = std::move(states);
  offers_model_ = what == Offer::model;
  for (std::size_t shard = 0; shard < latest_.size(); ++shard) latest_[shard] = offered_.front().applied[shard] - 1;
}

bool ClusterManager::done(std::int64_t clock) const {
  const std::vector<bool> expected = args_.participation.in_round(clock);
  int missing = 0;
  for (std::size_t shard = 0; shard < latest_.size(); ++shard)
    missing += expected[shard] && latest_[shard] < clock ? 1 : 0;
  return missing <= args_.backup;
}

bool ClusterManager::wait_for(std::int64_t clock, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, timeout, [&] { return failure_ || done(clock); });
  if (done(clock)) return true;
  if (failure_) std::rethrow_exception(failure_);
  return false;
}

std::map<int, ShardReport> ClusterManager::take_reports(std::int64_t clock) {
  const std::lock_guard lock(mutex_);
  reports_.erase(reports_.begin(), reports_.lower_bound(clock));
  const auto found = reports_.find(clock);
  return found == reports_.end() ? std::map<int, ShardReport>{} : found->second;
}

std::int64_t ClusterManager::farthest() const {
  const std::lock_guard lock(mutex_);
  return *std::ranges::max_element(latest_);
}

std::int64_t ClusterManager::worst_staleness() const {
  const std::lock_guard lock(mutex_);
  return worst_staleness_;
}

void ClusterManager::release_cuts(std::int64_t clock) {
  {
    const std::lock_guard lock(mutex_);
    released_ = std::max(released_, clock);
  }
  args_.mailbox->wake();
}

std::int64_t ClusterManager::stop(std::int64_t clock, const std::string& why) {
  std::unique_lock lock(mutex_);
  stop_ = {clock, why};
  args_.mailbox->wake();
  news_.wait(lock, [&] { return failure_ || view_.stop_clock == clock; });
  if (failure_) std::rethrow_exception(failure_);
  return view_.version;
}

void ClusterManager::pause_at(std::int64_t clock) {
  {
    const std::lock_guard lock(mutex_);
    stop_ = {clock, "a pause"};
  }
  args_.mailbox->wake();
}

bool ClusterManager::end(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  over_ = true;
  return news_.wait_for(lock, timeout, [&] { return failure_ || members_ == 0; });
}

bool ClusterManager::leads() const {
  const std::lock_guard lock(mutex_);
  return !failure_;
}

bool ClusterManager::asked_to_end() const {
  const std::lock_guard lock(mutex_);
  return stop_.has_value();
}

View ClusterManager::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

}  // namespace trifold
