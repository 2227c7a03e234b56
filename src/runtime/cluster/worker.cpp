#include "runtime/cluster/worker.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/process_memory.h"

namespace trifold {
namespace {

// Whoever waits looks so often whether its shards are still its own.
constexpr std::chrono::milliseconds kLookAtView{20};

}  // namespace

// The servers, as one clock of one shard sees them.
class Worker::ClockExchange final : public ParameterExchange {
 public:
  ClockExchange(Worker& worker, int shard, std::int64_t clock)
      : worker_(worker),
        push_{.shard = shard,
              .clock = clock,
              .weight = worker.work_.weight(shard),
              .rate = worker.work_.learning_rate(clock)} {}

  bool need_parameter(int tensor, std::span<float> values) override {
    const auto index = static_cast<std::size_t>(tensor);
    TRIFOLD_CHECK(worker_.pulled_[index], "'{}' was not pulled", worker_.tensors_[index].name);
    worker_.wait_for_values(worker_.tickets_[index]);
    const std::vector<float>& pulled = (*worker_.staging_)[index];
    TRIFOLD_CHECK(values.size() == pulled.size(), "{} numbers, not {}", values.size(), pulled.size());
    std::ranges::copy(pulled, values.begin());
    return true;
  }

  void gradient_ready(int tensor, std::span<const float> values) override {
    // All values of this clock are here, and so, in rounds, what all pushed before it has gone out.
    if (worker_.tensors_[static_cast<std::size_t>(tensor)].trained)
      std::call_once(counted_, [&] { worker_.moved_ = worker_.counts(); });
    PushArgs push = push_;
    push.tensor = tensor;
    worker_.client_.push(push, values);
  }

 private:
  Worker& worker_;
  PushArgs push_;
  std::once_flag counted_;
};

Worker::Worker(WorkerOptions options, ServerClient& client, ShardWork& work)
    : options_(std::move(options)), client_(client), work_(work), tensors_(work.tensors()) {
  forget_pull();
}

void Worker::set_view(const View& view) {
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    if (view.version > view_.version) view_ = view;
    over = view_.over;
  }
  // After that: when the client drops what is beyond the end, this worker knows of it.
  client_.set_view(view);
  client_.set_manager(view.leader);
  changed_.notify_all();
  if (over) client_.stop();  // nobody answers any more
}

void Worker::leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  client_.stop();
}

void Worker::run() {
  try {
    while (const std::optional<int> shard = next_shard()) do_clock(*shard);
  } catch (const Refused& refused) {
    const std::lock_guard lock(mutex_);
    if (refused.code() != "stopped" || !(view_.over || leaving_)) throw;
  }
}

std::vector<int> Worker::owned_shards(const View& view) const {
  std::vector<int> owned;
  for (std::size_t i = 0; i < view.shard_owners.size(); ++i)
    if (view.shard_owners[i] == options_.id) owned.push_back(static_cast<int>(i));
  return owned;
}

std::int64_t Worker::end_clock(const View& view) const {
  return view.stop_clock ? std::min(*view.stop_clock, options_.clocks) : options_.clocks;
}

// The one that is farthest behind: others may wait for it. Nothing: the job is over.
std::optional<int> Worker::next_shard() {
  while (true) {
    View view;
    {
      const std::lock_guard lock(mutex_);
      if (view_.over || leaving_) return std::nullopt;
      view = view_;
    }
    if (takes_over(owned_shards(view))) continue;  // that took its time
    std::optional<int> next;
    for (auto& [shard, clock] : clocks_) {
      const auto takes_part = [&]() -> bool {  // not a reference into what goes with this line
        return options_.participation.in_round(clock)[static_cast<std::size_t>(shard)];
      };
      while (clock < end_clock(view) && !takes_part()) ++clock;
      if (clock < end_clock(view) && (!next || clock < clocks_.at(*next))) next = shard;
    }
    if (const auto clock = clock_to_compare()) {
      compare_models(*clock);
      continue;
    }
    if (next) return next;
    // Done; but the shards of a worker that is lost may still come here.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return leaving_ || view_.version != view.version; });
  }
}

// True: there are new ones.
bool Worker::takes_over(const std::vector<int>& owned) {
  std::erase_if(clocks_, [&](const auto& entry) {
    if (std::ranges::binary_search(owned, entry.first)) return false;
    work_.give_up(entry.first);
    uncompared_.erase(entry.first);
    return true;
  });
  if (clocks_.size() == owned.size()) return false;
  const std::vector<std::int64_t> applied = client_.least_applied();
  for (const int shard : owned) {
    const std::int64_t clock = applied.at(static_cast<std::size_t>(shard));
    if (!clocks_.emplace(shard, clock).second) continue;
    forget_pull();                    // it may need more than the others
    report(shard, clock - 1, {}, 0);  // what was done before us counts as done
    if (work_.compares_after(clock - 1)) report_difference(shard, clock - 1, std::nullopt);  // that model is gone
  }
  return true;
}

void Worker::do_clock(int shard) {
  const auto begin = std::chrono::steady_clock::now();
  const std::int64_t clock = clocks_.at(shard);
  try {
    if (options_.pulls_every_shard || pulled_clock_ != clock) begin_pull(shard, clock);
    while (!client_.wait_for_room(shard, clock, kLookAtView)) check_shards();
    // Mostly what comes first tells whether the others of this clock are there.
    for (const ServerTicket& ticket : tickets_) {
      wait_for_values(ticket);
      if (work_.can_be_interrupted()) break;
    }
    ClockExchange exchange(*this, shard, clock);
    const ShardWork::Result result = work_.compute(shard, clock, exchange);
    client_.flush();
    if (beyond_end(clock)) return forget_pull();  // some of it was dropped: if the end is put off, it is done again
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
    report(shard, clock, result, elapsed.count());
    clocks_.at(shard) += 1;
    if (work_.compares_after(clock)) uncompared_.insert_or_assign(shard, clock);
  } catch (const Interrupted&) {
    forget_pull();
  } catch (const Refused& refused) {
    // The job ends before this clock: next_shard() sees it.
    const std::lock_guard lock(mutex_);
    if (refused.code() != "stopped" || leaving_ || view_.over || clock < end_clock(view_)) throw;
    forget_pull();
  }
}

// Servers have made something of a clock only when all shards have done it, ours too.
std::optional<std::int64_t> Worker::clock_to_compare() const {
  if (uncompared_.empty()) return std::nullopt;
  std::int64_t clock = uncompared_.begin()->second;
  for (const auto& [shard, compared] : uncompared_) clock = std::min(clock, compared);
  const bool all_past = std::ranges::all_of(clocks_, [&](const auto& entry) { return entry.second > clock; });
  return all_past ? std::optional(clock) : std::nullopt;
}

void Worker::compare_models(std::int64_t clock) {
  bool pulled = false;
  try {
    if (pulled_clock_ != clock + 1 || std::ranges::count(pulled_, false) > 0)
      begin_pull(uncompared_.begin()->first, clock + 1, true);
    for (const ServerTicket& ticket : tickets_) wait_for_values(ticket);
    pulled = true;
  } catch (const Interrupted&) {
    forget_pull();
    return;  // it is tried again
  } catch (const Refused& refused) {
    // The job ends here: whoever asks is told that nothing is known.
    const std::lock_guard lock(mutex_);
    if (refused.code() != "stopped" || leaving_ || view_.over || clock + 1 < end_clock(view_)) throw;
    forget_pull();
  }
  std::erase_if(uncompared_, [&](const auto& entry) {
    if (entry.second != clock) return false;
    report_difference(entry.first, clock, pulled ? work_.compare(entry.first, *staging_) : std::nullopt);
    return true;
  });
}

void Worker::report_difference(int shard, std::int64_t clock, const std::optional<NodeDifference>& difference) {
  nlohmann::json fields = {{"shard", shard}, {"clock", clock}, {"compared", difference.has_value()}};
  if (difference) fields["distance"] = difference->distance;
  if (difference && difference->kl) fields["kl"] = *difference->kl;
  client_.report(std::move(fields));
}

bool Worker::beyond_end(std::int64_t clock) {
  const std::lock_guard lock(mutex_);
  return clock >= end_clock(view_);
}

void Worker::begin_pull(int shard, std::int64_t clock, bool whole) {
  std::vector<PullInto> wanted;
  pulled_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    pulled_.push_back(whole || any_needs(shard, clock, static_cast<int>(i)));
    if (pulled_[i]) wanted.push_back({.tensor = static_cast<int>(i), .values = (*staging_)[i], .keeps = staging_});
  }
  const std::vector<ServerTicket> tickets = client_.pull(shard, clock, wanted);
  tickets_.assign(tensors_.size(), ServerTicket());
  for (std::size_t i = 0; i < wanted.size(); ++i) tickets_[static_cast<std::size_t>(wanted[i].tensor)] = tickets[i];
  pulled_clock_ = clock;
}

// Where one pull is for all shards, any of them.
bool Worker::any_needs(int shard, std::int64_t clock, int tensor) const {
  if (options_.pulls_every_shard) return work_.needs(shard, clock, tensor);
  return std::ranges::any_of(clocks_, [&](const auto& entry) { return work_.needs(entry.first, clock, tensor); });
}

void Worker::wait_for_values(const ServerTicket& ticket) {
  while (!client_.wait_for(ticket, kLookAtView)) check_shards();
}

// What we wait for may be the clock of a shard that has become ours.
void Worker::check_shards() {
  const std::lock_guard lock(mutex_);
  const std::vector<int> owned = owned_shards(view_);
  if (!std::ranges::equal(owned, clocks_, {}, {}, [](const auto& entry) { return entry.first; })) throw Interrupted();
}

void Worker::forget_pull() {
  staging_ = std::make_shared<Staging>();
  for (const ServedTensor& tensor : tensors_) staging_->emplace_back(static_cast<std::size_t>(tensor.elements));
  tickets_.clear();
  pulled_.clear();
  pulled_clock_.reset();
}

ClientCounts Worker::counts() const {
  ClientCounts counts = client_.counts();
  if (options_.head == nullptr) return counts;
  const HostAggregator::Traffic traffic = options_.head->traffic();
  counts.sent_bytes += traffic.sent;
  counts.received_bytes += traffic.received;
  return counts;
}

void Worker::report(int shard, std::int64_t clock, const ShardWork::Result& result, double step_ms) {
  std::int64_t staleness = 0;
  for (const ServerTicket& ticket : tickets_) staleness = std::max(staleness, client_.staleness(ticket));
  const std::uint64_t late = client_.counts().late_pushes;
  client_.report({{"shard", shard},
                  {"clock", clock},
                  {"loss", result.loss},
                  {"correct", result.correct},
                  {"samples", result.samples},
                  {"step_ms", step_ms},
                  {"staleness", staleness},
                  {"late", late - reported_.late_pushes},
                  {"sent_bytes", moved_.sent_bytes - reported_.sent_bytes},
                  {"received_bytes", moved_.received_bytes - reported_.received_bytes},
                  {"peak_bytes", peak_process_bytes()}});
  reported_ = moved_;
  reported_.late_pushes = late;
}

}  // namespace trifold
