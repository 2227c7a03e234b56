#include "parallel/servers/server/parameter_server.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kAskAgain{500};
constexpr std::size_t kFetchedBytes = std::size_t{4} << 20;  // asked for in one message, and so answered in one

}  // namespace

ParameterServer::ParameterServer(Args args)
    : args_(std::move(args)),
      held_(std::move(args_.held)),
      // As much as all workers and replicas may have on their way here.
      early_room_(2 * static_cast<std::size_t>(args_.rules.shards() + 1) * args_.layout.all_state_bytes()) {}

void ParameterServer::follow(const View& view) {
  if (view.version <= version_) return;
  version_ = view.version;
  const std::vector<std::string> ids = view.server_ids();
  const auto self = std::ranges::find(ids, args_.id);
  if (self == ids.end()) {
    stop_serving();
    // Before the first view that has it a server waits; after one that no longer has it, there is no way back.
    deposed_ = self_ >= 0;
    return;
  }
  self_ = static_cast<int>(self - ids.begin());
  if (view.epoch != epoch_) {
    stop_serving();
    epoch_ = view.epoch;
    take_early();  // what is of an older one its senders ask anew
  }
  view_ = view;
  const bool stops_elsewhere = std::exchange(args_.rules.stop_clock, view.stop_clock) != view.stop_clock;
  if (view.settled && !serving_) start_serving(view);
  if (view.safe) forget_spare_copies();
  if (!stops_elsewhere) return;
  for (auto& [slice, owned] : owned_)
    if (owned.slice.rules_changed()) changed(slice);
}

// Whoever waits for an answer asks the new owners.
void ParameterServer::stop_serving() {
  serving_ = false;
  for (auto& [slice, owned] : owned_) held_.insert_or_assign(slice, owned.slice.state());
  owned_.clear();
  missing_.clear();
  pushes_.clear();
  safe_pushes_.clear();
  ready_pulls_.clear();
  replication_.reset();
  rounds_.reset();
}

std::map<int, SliceState> ParameterServer::give_up() {
  stop_serving();
  for (const auto& [address, peer] : std::exchange(peers_, {})) args_.mailbox->disconnect(peer);
  return std::exchange(held_, {});
}

void ParameterServer::start_serving(const View& view) {
  serving_ = true;
  places_ = place_slices(args_.layout.tensors, args_.layout.slices, view.server_ids());
  replication_ = std::make_unique<ReplicaKeeper>(
      ReplicaKeeper::Args{.mailbox = args_.mailbox,
                          .layout = &args_.layout,
                          .epoch = epoch_,
                          .state = [this](int slice) -> const SliceState& { return owned_.at(slice).slice.state(); }});
  for (int slice = 0; slice < static_cast<int>(places_.size()); ++slice) {
    if (places_[static_cast<std::size_t>(slice)].primary != self_) continue;
    const std::string& source = view.sources.at(static_cast<std::size_t>(slice));
    const auto held = held_.find(slice);
    if (source == args_.id && held != held_.end())
      own(slice, held->second);
    else
      missing_.emplace(slice, source);
  }
  spdlog::debug("server {}: epoch {}, owns {} slices, {} on their way", args_.id, epoch_, owned_.size(),
                missing_.size());
  begin_choices();
  fetch_missing();
  take_early();
  replication_->send_due();
}

// Until the new owners and their replicas have all slices, those of before are what is left if one of them dies.
void ParameterServer::forget_spare_copies() {
  std::erase_if(held_,
                [&](const auto& held) { return places_[static_cast<std::size_t>(held.first)].replica != self_; });
}

// All slices that this server owns are here, and on their replicas.
bool ParameterServer::safe() const {
  return serving_ && missing_.empty() && std::ranges::all_of(owned_, [&](const auto& owned) {
           return !replication_->replicates(owned.first) || replication_->safe_version(owned.first) >= 0;
         });
}

PeerId ParameterServer::peer_of(const MemberInfo& member) {
  const auto [peer, added] = peers_.try_emplace(member.address, 0);
  if (added) peer->second = args_.mailbox->connect(member.address, member.public_key);
  return peer->second;
}

void ParameterServer::own(int slice, SliceState state) {
  held_.erase(slice);
  if (args_.audit != nullptr) {
    const std::string& source = view_.sources.at(static_cast<std::size_t>(slice));
    args_.audit->owns(slice, state,
                      {.epoch = epoch_,
                       .from = source,
                       .first = std::ranges::find(view_.servers, source, &MemberInfo::id) == view_.servers.end()});
  }
  state.epoch = epoch_;
  const SlicePlace& place = places_[static_cast<std::size_t>(slice)];
  owned_.emplace(slice, Owned{ServedSlice({.rules = &args_.rules,
                                           .rule = args_.rule.get(),
                                           .update = args_.update.get(),
                                           .tensor = args_.layout.tensor_of(slice),
                                           .audit = args_.audit,
                                           .number = slice},
                                          std::move(state))});
  if (place.replica < 0) return;
  replication_->add(slice, peer_of(view_.servers[static_cast<std::size_t>(place.replica)]));
}

void ParameterServer::fetch_missing() {
  asked_ = Clock::now();
  std::map<std::string, std::vector<int>> by_source;
  for (const auto& [slice, source] : missing_) by_source[source].push_back(slice);
  for (const auto& [source, slices] : by_source) {
    const auto server = std::ranges::find(view_.servers, source, &MemberInfo::id);
    const PeerId peer = peer_of(server == view_.servers.end() ? view_.leader : *server);
    std::vector<int> part;
    std::size_t bytes = 0;
    const auto ask = [&] {
      args_.mailbox->send(peer,
                          {.kind = MessageKind::fetch,
                           .fields = {{"id", 0}, {"epoch", epoch_}, {"slices", part}, {"cut", -1}, {"history", true}}});
      part.clear();
      bytes = 0;
    };
    for (const int slice : slices) {
      part.push_back(slice);
      bytes += args_.layout.state_bytes(slice);
      if (bytes >= kFetchedBytes) ask();
    }
    if (!part.empty()) ask();
  }
}

void ParameterServer::tick() {
  if (!missing_.empty() && Clock::now() - asked_ > kAskAgain) fetch_missing();
  follow_choices();
  send_answers();
  if (replication_) replication_->send_due();
}

void ParameterServer::note_the_end() const {
  if (args_.audit == nullptr) return;
  for (const auto& [slice, owned] : owned_) args_.audit->ends_with(slice, owned.slice.state(), epoch_);
}

}  // namespace trifold
