#include "parallel/servers/server/parameter_server.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "parallel/servers/server/push_message.h"
#include "parallel/servers/server/status_message.h"

namespace trifold {
namespace {

constexpr int kMostUnsent = 8;  // messages that are taken before what they made ready is sent

std::uint64_t id_of(const Message& message) {
  return message.fields.at("id").get<std::uint64_t>();
}

}  // namespace

ParameterServer::ParameterServer(Args args)
    : args_(std::move(args)),
      peers_(args_.mailbox),
      held_(std::move(args_.held)),
      missing_({.mailbox = args_.mailbox,
                .layout = &args_.layout,
                .peer_of = [this](const std::string& member) { return peer_named(member); }}),
      // As much as all workers and replicas may have on their way here.
      early_(2 * static_cast<std::size_t>(args_.rules.shards() + 1) * args_.layout.all_state_bytes()),
      owed_({.mailbox = args_.mailbox,
             .layout = &args_.layout,
             .half = args_.half_answers,
             .slice = [this](int slice) -> const ServedSlice& { return served(slice); }}) {}

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
    take_early();  // senders ask again for what is of an older one
  }
  view_ = view;
  const bool stops_elsewhere = std::exchange(args_.rules.stop_clock, view.stop_clock) != view.stop_clock;
  if (view.settled && !serving_) start_serving(view);
  // Older copies may go once the new owners and their replicas have all slices: until then one of these may die.
  if (view.safe)
    held_.drop_unless([&](int slice) { return places_[static_cast<std::size_t>(slice)].replica == self_; });
  if (!stops_elsewhere) return;
  for (auto& [slice, owned] : owned_)
    if (owned.rules_changed()) changed(slice);
}

// Whoever waits for an answer asks the new owners.
void ParameterServer::stop_serving() {
  serving_ = false;
  for (const auto& [slice, owned] : owned_) held_.hold(slice, owned.state());
  owned_.clear();
  missing_.clear();
  owed_.clear();
  replication_.reset();
  rounds_.reset();
}

std::map<int, SliceState> ParameterServer::give_up() {
  stop_serving();
  peers_.disconnect_all();
  return held_.take_all();
}

void ParameterServer::start_serving(const View& view) {
  serving_ = true;
  places_ = place_slices(args_.layout.tensors, args_.layout.slices, view.server_ids());
  replication_ = std::make_unique<ReplicaKeeper>(
      ReplicaKeeper::Args{.mailbox = args_.mailbox,
                          .layout = &args_.layout,
                          .epoch = epoch_,
                          .state = [this](int slice) -> const SliceState& { return served(slice).state(); }});
  for (int slice = 0; slice < static_cast<int>(places_.size()); ++slice) {
    if (places_[static_cast<std::size_t>(slice)].primary != self_) continue;
    const std::string& source = view.sources.at(static_cast<std::size_t>(slice));
    const SliceState* held = held_.find(slice);
    if (source == args_.id && held != nullptr)
      own(slice, *held);
    else
      missing_.expect(slice, source);
  }
  spdlog::debug("server {}: epoch {}, owns {} slices, {} on their way", args_.id, epoch_, owned_.size(),
                missing_.size());
  if (args_.rule->needs_distances()) begin_rounds();
  missing_.ask(epoch_);
  take_early();
  replication_->send_due();
}

void ParameterServer::begin_rounds() {
  std::vector<std::string> owners;
  for (std::size_t i = 0; i < view_.servers.size(); ++i)
    if (std::ranges::find(places_, static_cast<int>(i), &SlicePlace::primary) != places_.end())
      owners.push_back(view_.servers[i].id);
  RoundProtocol::Args args{.mailbox = args_.mailbox,
                           .epoch = epoch_,
                           .self = args_.id,
                           .rule = args_.rule.get(),
                           .rules = &args_.rules,
                           .owners = std::move(owners)};
  if (self_ != 0) args.first = peers_.of(view_.servers.front());
  rounds_ = std::make_unique<RoundProtocol>(std::move(args));
}

void ParameterServer::own(int slice, SliceState state) {
  held_.drop(slice);
  if (args_.audit != nullptr) {
    const std::string& source = view_.sources.at(static_cast<std::size_t>(slice));
    args_.audit->owns(slice, state,
                      {.epoch = epoch_,
                       .from = source,
                       .first = std::ranges::find(view_.servers, source, &MemberInfo::id) == view_.servers.end()});
  }
  state.epoch = epoch_;
  owned_.emplace(slice, ServedSlice({.rules = &args_.rules,
                                     .rule = args_.rule.get(),
                                     .update = args_.update.get(),
                                     .tensor = args_.layout.tensor_of(slice),
                                     .audit = args_.audit,
                                     .number = slice},
                                    std::move(state)));
  const SlicePlace& place = places_[static_cast<std::size_t>(slice)];
  if (place.replica < 0) return;
  replication_->add(slice, peers_.of(view_.servers[static_cast<std::size_t>(place.replica)]));
}

// A server of the view, or else its leader.
PeerId ParameterServer::peer_named(const std::string& member) {
  const auto server = std::ranges::find(view_.servers, member, &MemberInfo::id);
  return peers_.of(server == view_.servers.end() ? view_.leader : *server);
}

// All slices that this server owns are here, and on their replicas.
bool ParameterServer::safe() const {
  return serving_ && missing_.empty() && std::ranges::all_of(owned_, [&](const auto& owned) {
           return !replication_->replicates(owned.first) || replication_->safe_version(owned.first) >= 0;
         });
}

// --- messages

void ParameterServer::handle(const Received& received, bool more) {
  handle_request(received);
  follow_rounds();
  if (more && ++unsent_ < kMostUnsent) return;
  send_due();
}

void ParameterServer::tick() {
  missing_.ask_again(epoch_);
  follow_rounds();
  send_due();
}

void ParameterServer::send_due() {
  unsent_ = 0;
  owed_.send();
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
  const Message& message = received.message;
  switch (message.kind) {
    case MessageKind::push:
      return take_push(received);
    case MessageKind::pull:
      return take_pull(received);
    case MessageKind::fetch:
      return take_fetch(received);
    case MessageKind::status:
      args_.mailbox->send(received.from, message_of(status(), id_of(message)));
      return;
    case MessageKind::replicate:
      return take_replicas(received);
    case MessageKind::release:
      return take_release(message);
    case MessageKind::fetch_answer:
      return take_fetched(message);
    case MessageKind::replicate_answer:
      if (replication_ && message.fields.value("epoch", std::int64_t{-1}) == epoch_)
        for (const int slice : replication_->take_answer(id_of(message)))
          owed_.settle_pushes(slice, safe_version(slice));
      return;
    case MessageKind::distances:
      if (of_this_epoch(received) && rounds_) rounds_->take_distances(received);
      return;
    case MessageKind::choice:
      if (rounds_ && message.fields.at("epoch").get<std::int64_t>() == epoch_) rounds_->take_choice(message);
      return;
    case MessageKind::refusal:
      // From a source or replica of another epoch. tick() asks again in a moment.
      spdlog::debug("server {} was refused: {}", args_.id, message.fields.value("why", ""));
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

// Whether it can be taken now. Other members may see a view sooner than this server does: what they ask by it waits
// until the view is here, too. What they ask by an older one is refused.
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
  if (!early_.add(request, epoch))
    refuse(request, "epoch", fmt::format("this server is still on its way to epoch {}", epoch));
}

// Those that still cannot be taken wait again.
void ParameterServer::take_early() {
  for (const EarlyRequest& early : early_.take_all())
    if (early.epoch > epoch_)
      wait(early.request, early.epoch);
    else if (early.epoch == epoch_)
      handle_request(early.request);
}

void ParameterServer::take_push(const Received& received) {
  if (!of_this_epoch(received)) return;
  PushRequest request = push_from(received.message, args_.layout, args_.rules.shards());
  if (!all_here(received, request.slices)) return;
  const std::uint64_t push = owed_.begin_push(received.from, request.id, request.slices.size());
  // Slices that are good are taken even if another of the message is not: the push as a whole is refused then.
  for (std::size_t i = 0; i < request.slices.size(); ++i)
    if (!take_push_of_slice(received, push, request.slices[i], std::move(request.pushes[i])))
      return owed_.drop_push(push);
}

// False: it was refused.
bool ParameterServer::take_push_of_slice(const Received& received, std::uint64_t push, int slice, SlicePush pushed) {
  using Taken = ServedSlice::Taken;
  ServedSlice& owned = owned_.at(slice);
  const std::int64_t version = owned.state().version;
  const ShardClock of{pushed.shard, pushed.clock};
  Taken taken = Taken::too_far;
  try {
    taken = owned.push(std::move(pushed));
  } catch (const Error& error) {
    refuse(received, "bad", error.what());
    return false;
  }
  if (taken == Taken::too_far) {
    refuse(received, "clock", fmt::format("clock {} of shard {} is too far ahead", of.clock, of.shard));
    return false;
  }
  if (taken == Taken::overlaps) {
    refuse(received, "apart", fmt::format("some of its shards' pushes of clock {} are here already", of.clock));
    return false;
  }
  counts_.repeated += taken == Taken::repeated ? 1 : 0;
  counts_.late += taken == Taken::late ? 1 : 0;
  counts_.pushes += taken == Taken::applied || taken == Taken::waits ? 1 : 0;
  if (taken == Taken::late) owed_.note_late(push);
  owed_.add_push(push, slice, of);
  if (rounds_) rounds_->pushes_came();
  if (owned.state().version != version) changed(slice);
  owed_.settle_pushes(slice, safe_version(slice));
  return true;
}

void ParameterServer::take_pull(const Received& received) {
  if (!of_this_epoch(received)) return;
  const std::vector<int> slices = take_slices(received.message, args_.layout);
  const auto clock = received.message.fields.at("clock").get<std::int64_t>();
  if (!all_here(received, slices)) return;
  for (const int slice : slices) {
    if (!owed_.add_pull(received.from, id_of(received.message), slice, clock))
      return refuse(received, "bad", "too many pulls wait for one slice");
    owed_.settle_pulls(slice);
  }
}

void ParameterServer::take_release(const Message& message) {
  // A manager that leads no more may have read what its successor has still to read.
  if (message.fields.at("leader") != view_.leader.id) return;
  for (auto& [slice, owned] : owned_)
    if (owned.release(message.fields.at("cut"))) changed(slice);
  if (rounds_) rounds_->pushes_came();  // some may have waited for it
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
    if (owned != owned_.end() && !owned->second.reached(cut))
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
    if (missing_.came(slice)) own(slice, std::move(state));
  if (missing_.empty()) take_early();
}

void ParameterServer::take_replicas(const Received& received) {
  if (!of_this_epoch(received)) return;
  for (auto& [slice, state] : take_states(received.message, args_.layout)) {
    if (places_[static_cast<std::size_t>(slice)].replica != self_)
      return refuse(received, "owner", fmt::format("slice {} has its replica elsewhere", slice));
    held_.update_replica(slice, std::move(state));
  }
  args_.mailbox->send(received.from, {.kind = MessageKind::replicate_answer,
                                      .fields = {{"id", id_of(received.message)}, {"epoch", epoch_}}});
}

ServerStatus ParameterServer::status() const {
  ServerStatus status{.server = args_.id,
                      .ids = args_.former_ids,
                      .epoch = epoch_,
                      .view = version_,
                      .settled = serving_ && missing_.empty(),
                      .safe = safe()};
  status.ids.push_back(args_.id);
  const auto add = [&](int slice, const SliceState& state) -> SliceStatus& {
    return status.slices.emplace_back(
        SliceStatus{.slice = slice, .epoch = state.epoch, .version = state.version, .applied = state.applied});
  };
  for (const auto& [slice, owned] : owned_) {
    SliceStatus& added = add(slice, owned.state());
    for (const auto& [clock, kept] : owned.state().cuts) added.cuts.push_back(clock);
  }
  if (!serving_)
    for (const auto& [slice, state] : held_.all()) add(slice, state);
  return status;
}

// --- slices

// What a cut has of it (-1: the newest state, of a replica too). Null: it is not here.
const SliceState* ParameterServer::find_state(int slice, std::int64_t cut) const {
  const auto owned = owned_.find(slice);
  if (owned == owned_.end()) return cut >= 0 ? nullptr : held_.find(slice);
  return cut >= 0 ? owned->second.state_at(cut) : &owned->second.state();
}

// The newest version that a push may be answered for.
std::int64_t ParameterServer::safe_version(int slice) const {
  return replication_->replicates(slice) ? replication_->safe_version(slice) : served(slice).state().version;
}

void ParameterServer::changed(int slice) {
  if (replication_->replicates(slice)) replication_->changed(slice);
  owed_.settle_pushes(slice, safe_version(slice));
  owed_.settle_pulls(slice);
}

// Where the rule chooses among whole models: says what is here of a round, and completes it by what was chosen.
void ParameterServer::follow_rounds() {
  if (!rounds_) return;
  while (true) {
    if (rounds_->wants_to_look() && missing_.empty()) {
      std::vector<const ServedSlice*> slices;
      for (const auto& [slice, owned] : owned_) slices.push_back(&owned);
      rounds_->look(slices);
    }
    const std::optional<RoundChoice> choice = rounds_->news();
    if (!choice) return;
    for (auto& [slice, owned] : owned_)
      if (owned.choose(*choice)) changed(slice);
    rounds_->pushes_came();  // those of the next clock may be here
  }
}

void ParameterServer::note_the_end() const {
  if (args_.audit == nullptr) return;
  for (const auto& [slice, owned] : owned_) args_.audit->ends_with(slice, owned.state(), epoch_);
}

}  // namespace trifold
