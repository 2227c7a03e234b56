#include "runtime/cluster/cluster_display.h"

#include <utility>

#include <fmt/format.h>

#include "core/counted.h"
#include "parallel/servers/slices/slice_places.h"
#include "runtime/cluster/member_id.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kTellEvery{100};

std::string describe(const ServerSync& sync) {
  const std::string servers = counted(sync.servers, "server");
  if (sync.federated)
    return fmt::format("federated: {}, {} of {} clients a round", servers, sync.shards_a_round(), sync.shards);
  std::string text = fmt::format("{}: {}, {}", name_of(sync.consistency), servers, counted(sync.shards, "worker"));
  if (sync.consistency == Consistency::ssp) text += fmt::format(", staleness {}", sync.staleness);
  return text;
}

LiveCluster::State state_of(const View& view) {
  const bool manned = !view.servers.empty() && !view.workers.empty();
  if (!manned || view.version == 0) return LiveCluster::State::gathering;
  if (!view.settled) return LiveCluster::State::changing;
  return view.safe ? LiveCluster::State::whole : LiveCluster::State::replicating;
}

}  // namespace

ClusterDisplay::ClusterDisplay(LiveBoard& board, const Job& job, const ServicePlan& plan, const ClusterManager& manager)
    : board_(board), layout_(plan.layout()), participation_(plan.participation()), manager_(manager) {
  board_.begin({.job = job.name, .plan = describe(plan.sync), .ranks = 0});
}

// They are placed anew only when one came or went.
const std::vector<LiveServer>& ClusterDisplay::servers_of(const View& view) {
  if (std::exchange(epoch_, view.epoch) == view.epoch) return servers_;
  servers_.clear();
  for (const MemberInfo& server : view.servers) servers_.push_back({.name = short_name(server.id)});
  if (servers_.empty()) return servers_;
  const std::vector<SlicePlace> places = place_slices(layout_.tensors, layout_.slices, view.server_ids());
  for (std::size_t i = 0; i < places.size(); ++i)
    servers_[static_cast<std::size_t>(places[i].primary)].bytes += layout_.state_bytes(static_cast<int>(i));
  return servers_;
}

void ClusterDisplay::update(std::int64_t clock) {
  const auto now = std::chrono::steady_clock::now();
  if (now - told_ < kTellEvery) return;
  told_ = now;
  const View view = manager_.view();
  LiveCluster cluster{.state = state_of(view),
                      .told_at = now,
                      .workers = static_cast<int>(view.workers.size()),
                      .servers = servers_of(view)};
  const std::vector<bool> takes_part = participation_.in_round(clock);
  const std::vector<ShardProgress> shards = manager_.progress();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const ShardProgress& progress = shards[i];
    const std::string owner = i < view.shard_owners.size() ? view.shard_owners[i] : "";
    cluster.shards.push_back({.worker = owner.empty() ? "" : short_name(owner),
                              .steps = progress.clock + 1,
                              .awaited = takes_part[i] && progress.clock < clock,
                              .timed = progress.reports,
                              .work_ms = progress.work_ms,
                              .sent_bytes = progress.sent_bytes,
                              .received_bytes = progress.received_bytes,
                              .staleness = progress.last.staleness,
                              .worker_bytes = static_cast<std::size_t>(progress.last.peak_bytes),
                              .heard_at = progress.last.arrived});
  }
  board_.cluster(std::move(cluster));
}

}  // namespace trifold
