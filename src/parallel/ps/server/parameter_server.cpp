#include "parallel/ps/server/parameter_server.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <spdlog/spdlog.h>

#include "runtime/core/error.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kAskAgain{500};
// Of requests that wait for slices which are on their way; workers ask again anyway.
constexpr std::size_t kMostEarly = 4096;
constexpr std::size_t kMostOwedPulls = 1024;
constexpr std::size_t kMostCuts = 3;  // of a replica, which is not told when one is released
constexpr std::size_t kAnswerBytes = std::size_t{4} << 20;

std::uint64_t id_of(const Message& message) {
  return message.fields.at("id").get<std::uint64_t>();
}

}  // namespace

ParameterServer::ParameterServer(Args args) : args_(std::move(args)) {}

// --- views

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
  early_.clear();
  pushes_.clear();
  ready_pulls_.clear();
  replication_.reset();
  rounds_.reset();
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
      if (bytes >= kAnswerBytes) ask();
    }
    if (!part.empty()) ask();
  }
}

void ParameterServer::tick() {
  if (!missing_.empty() && Clock::now() - asked_ > kAskAgain) fetch_missing();
  follow_choices();
  if (replication_) replication_->send_due();
}

void ParameterServer::note_the_end() const {
  if (args_.audit == nullptr) return;
  for (const auto& [slice, owned] : owned_) args_.audit->ends_with(slice, owned.slice.state(), epoch_);
}

// --- messages

void ParameterServer::handle(const Received& received) {
  try {
    handle_request(received);
  } catch (const std::exception& error) {
    refuse(received, "bad", error.what());
  }
  follow_choices();
  send_ready_pulls();
  if (replication_) replication_->send_due();
}

void ParameterServer::handle_request(const Received& received) {
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

bool ParameterServer::of_this_epoch(const Received& received) {
  if (serving_ && received.message.fields.at("epoch").get<std::int64_t>() == epoch_) return true;
  refuse(received, "epoch",
         fmt::format("this server is in epoch {}{}", epoch_, serving_ ? "" : ", which is not settled"));
  return false;
}

// Whether a push or pull can be taken now. If not it is refused, or waits for slices that are on their way.
bool ParameterServer::all_here(const Received& request, const std::vector<int>& slices) {
  for (const int slice : slices) {
    if (places_[static_cast<std::size_t>(slice)].primary == self_) continue;
    refuse(request, "owner", fmt::format("slice {} is another server's", slice));
    return false;
  }
  if (std::ranges::all_of(slices, [&](int slice) { return owned_.contains(slice); })) return true;
  wait_for_slices(request);
  return false;
}

void ParameterServer::wait_for_slices(const Received& request) {
  if (early_.size() < kMostEarly) early_.push_back(request);
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
    const auto& cuts = owned->second.slice.state().cuts;
    const auto kept = cuts.find(cut);
    return kept == cuts.end() ? nullptr : kept->second.get();
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
  if (std::ranges::any_of(slices, [&](int slice) { return missing_.contains(slice); }))
    return wait_for_slices(received);
  std::vector<NumberedState> states;
  for (const int slice : slices) {
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
  if (!missing_.empty() || early_.empty()) return;
  for (const Received& request : std::exchange(early_, {})) handle_request(request);
}

void ParameterServer::take_replicas(const Received& received) {
  if (!of_this_epoch(received)) return;
  for (auto& [slice, state] : take_states(received.message, args_.layout)) {
    if (places_[static_cast<std::size_t>(slice)].replica != self_)
      return refuse(received, "owner", fmt::format("slice {} has its replica elsewhere", slice));
    const auto held = held_.find(slice);
    if (held != held_.end() && held->second.version > state.version) continue;  // it was sent twice
    if (held != held_.end() && held->second.version + 1 == state.version) state.before = held->second.values;
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
    slices.push_back({{"slice", slice}, {"version", state.version}, {"applied", state.applied}, {"cuts", cuts}});
  };
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
                                                 {"epoch", epoch_},
                                                 {"view", version_},
                                                 {"settled", serving_ && missing_.empty()},
                                                 {"safe", safe()},
                                                 {"slices", std::move(slices)}}});
}

// --- what is owed

void ParameterServer::changed(int slice) {
  if (replication_->replicates(slice)) replication_->changed(slice);
  settle_pushes(slice);
  settle_pulls(slice);
}

void ParameterServer::settle_pushes(int slice) {
  Owned& owned = owned_.at(slice);
  const std::int64_t version = owned.slice.state().version;
  const std::int64_t safe = replication_->replicates(slice) ? replication_->safe_version(slice) : version;
  std::erase_if(owned.pushes, [&](OwedPush& owed) {
    if (owed.version < 0 && owned.slice.contains(owed.shard, owed.clock)) owed.version = version;
    if (owed.version < 0 || owed.version > safe) return false;
    const auto push = pushes_.find(owed.push);
    if (push == pushes_.end()) return true;  // another slice of it was refused
    if (--push->second.left == 0) {
      args_.mailbox->send(push->second.from, {.kind = MessageKind::push_answer,
                                              .fields = {{"id", push->second.id}, {"late", push->second.late}}});
      pushes_.erase(push);
    }
    return true;
  });
}

void ParameterServer::settle_pulls(int slice) {
  Owned& owned = owned_.at(slice);
  std::erase_if(owned.pulls, [&](const OwedPull& owed) {
    if (!owned.slice.ready_for(owed.clock)) return false;
    ReadyPull& ready = ready_pulls_[{owed.from, owed.id}];
    ready.clock = owed.clock;
    ready.slices.push_back(slice);
    return true;
  });
}

// Several workers' pulls become ready together: what they wait for is encoded once, and shared.
void ParameterServer::send_ready_pulls() {
  std::vector<Message> answers;
  const ReadyPull* encoded = nullptr;
  const auto all_ready = std::exchange(ready_pulls_, {});
  for (const auto& [pull, ready] : all_ready) {
    if (encoded == nullptr || *encoded != ready) answers = pull_answers(ready);
    encoded = &ready;
    for (Message& answer : answers) {
      answer.fields["id"] = pull.second;
      args_.mailbox->send(pull.first, answer);
    }
  }
}

std::vector<Message> ParameterServer::pull_answers(const ReadyPull& ready) const {
  std::vector<Message> answers;
  std::vector<std::byte> bytes;
  nlohmann::json fields;
  for (std::size_t i = 0; i < ready.slices.size(); ++i) {
    const ServedSlice& served = owned_.at(ready.slices[i]).slice;
    const std::size_t before = bytes.size();
    encode(served.values_for(ready.clock), {}, {.half = args_.half_answers, .keep = 1}, bytes);
    fields["slices"].push_back(ready.slices[i]);
    fields["sizes"].push_back(bytes.size() - before);
    fields["oldest"].push_back(served.state().least());
    if (bytes.size() < kAnswerBytes && i + 1 < ready.slices.size()) continue;
    answers.push_back({.kind = MessageKind::pull_answer,
                       .fields = std::exchange(fields, {}),
                       .payload = Payload::own(std::exchange(bytes, {}))});
  }
  return answers;
}

}  // namespace trifold
