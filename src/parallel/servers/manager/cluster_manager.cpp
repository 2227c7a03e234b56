#include "parallel/servers/manager/cluster_manager.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/error.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kLook{20};
constexpr int kMostAtOnce = 256;

}  // namespace

ClusterManager::ClusterManager(Args args)
    : args_(std::move(args)),
      nodes_(args_.participation, args_.backup),
      peers_(args_.mailbox),
      shards_(static_cast<std::size_t>(args_.participation.shards)) {
  if (const auto entry = args_.registry->get(kViewName)) {
    view_revision_ = entry->revision;
    view_ = view_from_text(entry->text);
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
      if (args_.leads && !args_.leads())
        throw LeadershipLost("this manager's lease has run out: another may lead the job now");
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
      look_and_decide();
    }
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      news_.notify_all();
    }
    if (args_.on_failure) args_.on_failure(error.what());
  }
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
        // A report for the manager that had this address before: it would be ahead of the reports that died with that
        // manager. The worker repeats all of them, in order, once it knows of this manager.
        if (received.message.fields.at("manager") != args_.self.id) return;
        return take_report(received.message);
      case MessageKind::fetch:
        return answer_fetch(received);
      default:
        return;
    }
  } catch (const nlohmann::json::exception& error) {
    spdlog::warn("the manager was sent a message that lacks something: {}", error.what());
  } catch (const Error& error) {
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
  ShardProgress& progress = shards_[static_cast<std::size_t>(shard)];
  progress.clock = std::max(progress.clock, clock);
  worst_staleness_ = std::max(worst_staleness_, report.staleness);
  // A worker that took a shard over says so with no samples.
  if (report.samples > 0) {
    reports_[clock].emplace(shard, report);
    progress.reports += 1;
    progress.work_ms += report.step_ms;
    progress.sent_bytes += report.sent_bytes;
    progress.received_bytes += report.received_bytes;
    progress.last = report;
  }
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
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    shards_[shard].clock = offered_.front().applied[shard] - 1;
}

bool ClusterManager::done(std::int64_t clock) const {
  const std::vector<bool> expected = args_.participation.in_round(clock);
  int missing = 0;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    missing += expected[shard] && shards_[shard].clock < clock ? 1 : 0;
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
  return std::ranges::max(shards_, {}, &ShardProgress::clock).clock;
}

std::int64_t ClusterManager::worst_staleness() const {
  const std::lock_guard lock(mutex_);
  return worst_staleness_;
}

std::vector<ShardProgress> ClusterManager::progress() const {
  const std::lock_guard lock(mutex_);
  return shards_;
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

bool ClusterManager::lost_leadership() const {
  const std::lock_guard lock(mutex_);
  if (!failure_) return false;
  try {
    std::rethrow_exception(failure_);
  } catch (const LeadershipLost&) {
    return true;
  } catch (...) {
    return false;
  }
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
