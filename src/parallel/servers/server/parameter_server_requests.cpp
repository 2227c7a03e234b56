// The messages that a server takes: pushes and pulls of workers, slices that others have or want, questions of
// managers.
#include <algorithm>
#include <functional>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "parallel/servers/server/parameter_server.h"

namespace trifold {
namespace {

constexpr std::size_t kMostEarly = 4096;  // requests; who asks for more is told to ask again
constexpr std::size_t kMostOwedPulls = 1024;
constexpr std::size_t kMostCuts = 3;  // of a replica, which is not told when one is released
constexpr int kMostUnsent = 8;        // messages that are taken before what they made ready is sent

std::uint64_t id_of(const Message& message) {
  return message.fields.at("id").get<std::uint64_t>();
}

}  // namespace

void ParameterServer::handle(const Received& received, bool more) {
  handle_request(received);
  follow_choices();
  if (more && ++unsent_ < kMostUnsent) return;
  send_answers();
  if (replication_) replication_->send_due();
}

void ParameterServer::handle_request(const Received& received) {
  try {
    take(received);
  } catch (const std::exception& error) {
    refuse(received, "bad", error.what());
  }
}

void ParameterServer::take(const Received& received) {
  switch (received.message.kind) {
    case MessageKind::push:
      return take_push(received);
    case MessageKind::pull:
      return take_pull(received);
    case MessageKind::fetch:
      return take_fetch(received);
    case MessageKind::status:
      return answer_status(received);
    case MessageKind::replicate:
      return take_replicas(received);
    case MessageKind::release:
      // A manager that leads no more may have read what its successor has still to read.
      if (received.message.fields.at("leader") != view_.leader.id) return;
      for (auto& [slice, owned] : owned_)
        if (owned.slice.release(received.message.fields.at("cut"))) changed(slice);
      if (rounds_) rounds_->pushes_came();  // some may have waited for it
      return;
    case MessageKind::fetch_answer:
      return take_fetched(received.message);
    case MessageKind::replicate_answer:
      if (replication_ && received.message.fields.value("epoch", std::int64_t{-1}) == epoch_)
        for (const int slice : replication_->take_answer(id_of(received.message))) settle_pushes(slice);
      return;
    case MessageKind::distances:
      if (of_this_epoch(received) && rounds_) rounds_->take_distances(received);
      return;
    case MessageKind::choice:
      if (rounds_ && received.message.fields.at("epoch").get<std::int64_t>() == epoch_)
        rounds_->take_choice(received.message);
      return;
    case MessageKind::refusal:
      // A source or replica of another epoch: asked again, by tick(), in a moment.
      spdlog::debug("server {} was refused: {}", args_.id, received.message.fields.value("why", ""));
      return;
    default:
      refuse(received, "bad", "servers do not take such messages");
  }
}

void ParameterServer::refuse(const Received& received, const char* code, const std::string& why) {
  counts_.refused += 1;
  const nlohmann::json& fields = received.message.fields;
  nlohmann::json id = fields.is_object() && fields.contains("id") ? fields["id"] : nlohmann::json(0);
  args_.mailbox->send(received.from,
                      {.kind = MessageKind::refusal,
                       .fields = {{"id", std::move(id)}, {"code", code}, {"epoch", epoch_}, {"why", why}}});
}

// Whether it can be taken now. Others may hear of a view sooner than this server does: what they ask by it waits until
// it has come here, too. What they ask by an older one is refused.
bool ParameterServer::of_this_epoch(const Received& received) {
  const std::int64_t epoch = received.message.fields.at("epoch");
  if (serving_ && epoch == epoch_) return true;
  if (epoch > epoch_ || (epoch == epoch_ && !serving_))
    wait(received, epoch);
  else
    refuse(received, "epoch", fmt::format("this server is in epoch {}", epoch_));
  return false;
}

// Likewise of a push or pull, for slices that are on their way.
bool ParameterServer::all_here(const Received& request, const std::vector<int>& slices) {
  for (const int slice : slices) {
    if (places_[static_cast<std::size_t>(slice)].primary == self_) continue;
    refuse(request, "owner", fmt::format("slice {} is another server's", slice));
    return false;
  }
  if (std::ranges::all_of(slices, [&](int slice) { return owned_.contains(slice); })) return true;
  wait(request, epoch_);
  return false;
}

void ParameterServer::wait(const Received& request, std::int64_t epoch) {
  const std::size_t bytes = request.message.payload.size();
  if (early_.size() >= kMostEarly || early_bytes_ + bytes > early_room_)
    return refuse(request, "epoch", fmt::format("this server is still on its way to epoch {}", epoch));
  early_bytes_ += bytes;
  early_.push_back({.request = request, .epoch = epoch});
}

// Those that still cannot be taken wait again.
void ParameterServer::take_early() {
  early_bytes_ = 0;
  for (const Early& early : std::exchange(early_, {}))
    if (early.epoch > epoch_)
      wait(early.request, early.epoch);
    else if (early.epoch == epoch_)
      handle_request(early.request);
}

void ParameterServer::take_push(const Received& received) {
  if (!of_this_epoch(received)) return;
  const Message& message = received.message;
  const std::vector<int> slices = take_slices(message, args_.layout);
  const auto sizes = message.fields.at("sizes").get<std::vector<std::size_t>>();
  SlicePush push{.shard = message.fields.at("shard"),
                 .clock = message.fields.at("clock"),
                 .weight = message.fields.at("weight"),
                 .rate = message.fields.at("rate")};
  push.shards = message.fields.value("shards", std::vector<int>());
  if (!push.shards.empty() && (push.shards.size() < 2 || push.shards.front() != push.shard ||
                               std::ranges::adjacent_find(push.shards, std::greater_equal()) != push.shards.end() ||
                               push.shards.back() >= args_.rules.shards()))
    return refuse(received, "bad", "a push of several shards that are not there, or not in their order");
  if (sizes.size() != slices.size() || push.shard < 0 || push.shard >= args_.rules.shards() || push.clock < 0 ||
      !(push.weight > 0))
    return refuse(received, "bad", "a push of no such shard, clock, weight or sizes");
  if (!all_here(received, slices)) return;
  const std::uint64_t key = next_push_++;
  pushes_.emplace(key, Push{.from = received.from, .id = id_of(message), .left = static_cast<int>(slices.size())});
  std::size_t at = 0;
  // Slices that are good are taken even if another of the message is not: the push as a whole is refused then.
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const bool whole = sizes[i] <= message.payload.size() - at;
    if (!whole) refuse(received, "bad", "a push that ends within a slice");
    if (whole) push.encoding = message.payload.part(at, sizes[i]);
    if (!whole || !take_push_of_slice(received, key, slices[i], push)) {
      pushes_.erase(key);
      return;
    }
    at += sizes[i];
  }
}

// False: it was refused.
bool ParameterServer::take_push_of_slice(const Received& received, std::uint64_t key, int slice, SlicePush push) {
  using Taken = ServedSlice::Taken;
  Owned& owned = owned_.at(slice);
  const std::int64_t version = owned.slice.state().version;
  const OwedPush owed{.push = key, .shard = push.shard, .clock = push.clock};
  Taken taken = Taken::too_far;
  try {
    taken = owned.slice.push(std::move(push));
  } catch (const Error& error) {
    refuse(received, "bad", error.what());
    return false;
  }
  if (taken == Taken::too_far) {
    refuse(received, "clock", fmt::format("clock {} of shard {} is too far ahead", owed.clock, owed.shard));
    return false;
  }
  if (taken == Taken::overlaps) {
    refuse(received, "apart", fmt::format("some of its shards' pushes of clock {} are here already", owed.clock));
    return false;
  }
  counts_.repeated += taken == Taken::repeated ? 1 : 0;
  counts_.late += taken == Taken::late ? 1 : 0;
  counts_.pushes += taken == Taken::applied || taken == Taken::waits ? 1 : 0;
  if (taken == Taken::late) pushes_.at(key).late = true;
  owned.pushes.push_back(owed);
  if (rounds_) rounds_->pushes_came();
  if (owned.slice.state().version != version) changed(slice);
  settle_pushes(slice);
  return true;
}

void ParameterServer::take_pull(const Received& received) {
  if (!of_this_epoch(received)) return;
  const std::vector<int> slices = take_slices(received.message, args_.layout);
  const OwedPull pull{.from = received.from,
                      .id = id_of(received.message),
                      .clock = received.message.fields.at("clock").get<std::int64_t>()};
  if (!all_here(received, slices)) return;
  for (const int slice : slices) {
    std::vector<OwedPull>& owed = owned_.at(slice).pulls;
    if (owed.size() >= kMostOwedPulls) return refuse(received, "bad", "too many pulls wait for one slice");
    owed.push_back(pull);
    settle_pulls(slice);
  }
}

const SliceState* ParameterServer::find_state(int slice, std::int64_t cut) const {
  const auto owned = owned_.find(slice);
  if (cut >= 0) {
    if (owned == owned_.end()) return nullptr;
    return owned->second.slice.state_at(cut);
  }
  if (owned != owned_.end()) return &owned->second.slice.state();
  const auto held = held_.find(slice);
  return held == held_.end() ? nullptr : &held->second;
}

void ParameterServer::take_fetch(const Received& received) {
  if (!of_this_epoch(received)) return;
  const std::int64_t cut = received.message.fields.at("cut");
  const std::vector<int> slices = take_slices(received.message, args_.layout);
  // A slice that is on its way is not gone, and what is here of it may be an old replica.
  if (std::ranges::any_of(slices, [&](int slice) { return missing_.contains(slice); })) return wait(received, epoch_);
  std::vector<NumberedState> states;
  for (const int slice : slices) {
    // What the owner before this one had and did not replicate is lost; workers still have it, and send it again.
    const auto owned = owned_.find(slice);
    if (owned != owned_.end() && !owned->second.slice.reached(cut))
      return refuse(received, "early", fmt::format("slice {} has not reached clock {} yet", slice, cut));
    const SliceState* state = find_state(slice, cut);
    if (state == nullptr)
      return refuse(received, "gone", fmt::format("slice {} is not here as of clock {}", slice, cut));
    states.emplace_back(slice, *state);
  }
  Message answer{.kind = MessageKind::fetch_answer, .fields = {{"id", id_of(received.message)}, {"epoch", epoch_}}};
  put_states(answer, states, args_.layout, received.message.fields.value("history", false));
  args_.mailbox->send(received.from, answer);
}

void ParameterServer::take_fetched(const Message& message) {
  if (!serving_ || message.fields.at("epoch").get<std::int64_t>() != epoch_) return;
  for (auto& [slice, state] : take_states(message, args_.layout))
    if (missing_.erase(slice) > 0) own(slice, std::move(state));
  if (missing_.empty()) take_early();
}

void ParameterServer::take_replicas(const Received& received) {
  if (!of_this_epoch(received)) return;
  for (auto& [slice, state] : take_states(received.message, args_.layout)) {
    if (places_[static_cast<std::size_t>(slice)].replica != self_)
      return refuse(received, "owner", fmt::format("slice {} has its replica elsewhere", slice));
    const auto held = held_.find(slice);
    if (held != held_.end() && held->second.newer_than(state)) continue;  // it was sent twice
    const bool next = held != held_.end() && held->second.epoch == state.epoch;
    if (next && held->second.version + 1 == state.version) state.before = held->second.values;
    if (held != held_.end()) state.cuts.merge(held->second.cuts);
    while (state.cuts.size() > kMostCuts) state.cuts.erase(state.cuts.begin());
    held_.insert_or_assign(slice, std::move(state));
  }
  args_.mailbox->send(received.from, {.kind = MessageKind::replicate_answer,
                                      .fields = {{"id", id_of(received.message)}, {"epoch", epoch_}}});
}

// While it serves, of what it owns; before that, when sources are chosen, of all that it holds.
void ParameterServer::answer_status(const Received& received) {
  nlohmann::json slices = nlohmann::json::array();
  const auto add = [&](int slice, const SliceState& state, const std::vector<std::int64_t>& cuts) {
    slices.push_back({{"slice", slice},
                      {"epoch", state.epoch},
                      {"version", state.version},
                      {"applied", state.applied},
                      {"cuts", cuts}});
  };
  std::vector<std::string> ids = args_.former_ids;
  ids.push_back(args_.id);
  for (const auto& [slice, owned] : owned_) {
    std::vector<std::int64_t> cuts;
    for (const auto& [clock, kept] : owned.slice.state().cuts) cuts.push_back(clock);
    add(slice, owned.slice.state(), cuts);
  }
  if (!serving_)
    for (const auto& [slice, state] : held_) add(slice, state, {});
  args_.mailbox->send(received.from, {.kind = MessageKind::status_answer,
                                      .fields = {{"id", id_of(received.message)},
                                                 {"server", args_.id},
                                                 {"ids", std::move(ids)},
                                                 {"epoch", epoch_},
                                                 {"view", version_},
                                                 {"settled", serving_ && missing_.empty()},
                                                 {"safe", safe()},
                                                 {"slices", std::move(slices)}}});
}

}  // namespace trifold
