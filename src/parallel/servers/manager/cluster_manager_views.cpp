// How the manager makes views: it looks who lives, asks servers what they hold when they come or go, and writes down
// who has what from now on.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/counted.h"
#include "core/error.h"
#include "parallel/servers/manager/cluster_manager.h"
#include "parallel/servers/server/status_message.h"
#include "parallel/servers/slices/slice_places.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kAskAgain{100};
constexpr std::chrono::seconds kLonely{30};
// For servers that were given up and may come back with what they hold: several leases.
constexpr std::chrono::seconds kComeBack{15};
constexpr std::chrono::seconds kTellAgain{1};

std::vector<std::string> ids_of(const std::map<std::string, MemberInfo>& members, const std::string& role) {
  std::vector<std::string> ids;
  for (const auto& [id, member] : members)
    if (member.role == role) ids.push_back(id);
  return ids;
}

}  // namespace

// While the registry cannot be reached nothing is decided; if that lasts, the lease has run out.
void ClusterManager::look_and_decide() {
  try {
    look_at_members();
    reconsider();
    warned_ = false;
  } catch (const Unreachable& error) {
    if (!args_.leads) throw;
    if (!std::exchange(warned_, true)) spdlog::warn("{}", error.what());
  }
}

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
  if (servers.empty())
    return wait_for_servers("all servers are gone; resume the run from its last checkpoint to go on");
  if (servers != view.servers) return begin_change(std::move(servers));
  if (!view.settled) {
    if (all_reported()) return settle();
    if (Clock::now() - asked_ > kAskAgain) ask_for_status();
    return;
  }
  lacking_since_.reset();
  view.safe = view.safe || std::ranges::all_of(view.servers, [&](const auto& each) { return safe_.contains(each.id); });
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
  View view = this->view();
  spdlog::info("{}: {}", counted(servers.size(), "server"),
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
    args_.mailbox->send(peers_.of(server), {.kind = MessageKind::status, .fields = {{"id", 0}}});
  }
}

void ClusterManager::take_status(const Message& message) {
  const View view = this->view();
  ServerStatus status = status_from(message);
  if (status.epoch != view.epoch) return;
  if (view.settled) {
    if (status.safe) safe_.insert(status.server);
    return;
  }
  ServerReport report{.ids = std::move(status.ids)};
  for (const SliceStatus& slice : status.slices)
    if (slice.slice >= 0 && slice.slice < static_cast<int>(args_.layout.slices.size()))  // else of another model
      report.held[slice.slice] = {.epoch = slice.epoch, .version = slice.version};
  statuses_.insert_or_assign(status.server, std::move(report));
}

bool ClusterManager::all_reported() const {
  const View view = this->view();
  return std::ranges::all_of(view.servers, [&](const MemberInfo& server) { return statuses_.contains(server.id); });
}

// By slice, of the last epoch that was settled.
LastKeepers ClusterManager::last_keepers(const ServedEpoch& served) const {
  LastKeepers last{.epoch = served.epoch, .first = served.first};
  if (served.epoch == 0) return last;
  const auto id_of = [&](int server) {
    return server < 0 ? std::string() : served.servers[static_cast<std::size_t>(server)];
  };
  for (const SlicePlace& place : place_slices(args_.layout.tensors, args_.layout.slices, served.servers))
    last.of_slice.push_back({.owner = id_of(place.primary), .replica = id_of(place.replica)});
  return last;
}

void ClusterManager::settle() {
  View view = this->view();
  std::string beginner;
  {
    const std::lock_guard lock(mutex_);
    // Another manager's first values may have been others: a later checkpoint's.
    if (offers_model_ && (view.served.epoch == 0 || view.begun_by == args_.self.id)) beginner = args_.self.id;
  }
  view.sources =
      choose_sources(static_cast<int>(args_.layout.slices.size()), statuses_, last_keepers(view.served), beginner);
  if (const auto lost = std::ranges::count(view.sources, std::string()); lost > 0)
    return wait_for_servers(
        fmt::format("{} of {} slices are on no server any more; resume the run from its last "
                    "checkpoint",
                    lost, view.sources.size()));
  view.settled = true;
  view.served = {.epoch = view.epoch, .first = view.served.epoch == 0, .servers = view.server_ids()};
  safe_.clear();
  publish(std::move(view));
}

// Those that are only cut off, or stood still, come back with what they have.
void ClusterManager::wait_for_servers(const std::string& otherwise) {
  if (!lacking_since_) {
    lacking_since_ = Clock::now();
    spdlog::warn("servers are missing: waiting {} s for them to come back", kComeBack.count());
  }
  if (Clock::now() - *lacking_since_ > kComeBack) fail_runtime("{}", otherwise);
}

// Another manager may have written since: then it leads, and this one has nothing to say any more.
void ClusterManager::publish(View view) {
  view.version += 1;
  view.leader = args_.self;
  if (view.begun_by.empty()) view.begun_by = args_.self.id;
  const auto revision = args_.registry->put_if(kViewName, view_revision_, to_text(view));
  if (!revision) throw LeadershipLost("another manager leads this job now");
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
    args_.mailbox->send(peers_.of(server),
                        {.kind = MessageKind::release, .fields = {{"cut", clock}, {"leader", args_.self.id}}});
}

}  // namespace trifold
