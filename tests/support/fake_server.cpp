#include "support/fake_server.h"

#include <algorithm>
#include <chrono>

#include "parallel/servers/server/status_message.h"
#include "parallel/servers/wire/payload_parts.h"

namespace trifold::test {

FakeModel::FakeModel(std::vector<ServedTensor> given, int shard_count, std::int64_t slice_elements)
    : tensors(std::move(given)), slices(cut_into_slices(tensors, slice_elements)), shards(shard_count) {
  for (const Slice& slice : slices) {
    HeldSlice& one = held.emplace_back();
    for (std::int64_t i = slice.begin; i < slice.end; ++i)
      one.values.push_back(static_cast<float>(100 * slice.tensor) + static_cast<float>(i % 50));
  }
}

float FakeModel::value(int tensor, std::int64_t element) {
  const std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < slices.size(); ++i)
    if (slices[i].tensor == tensor && slices[i].begin <= element && element < slices[i].end)
      return held[i].values[static_cast<std::size_t>(element - slices[i].begin)];
  return -1;
}

FakeServer::FakeServer(FakeModel& model, const std::string& id)
    : model_(model), mailbox_({.listen = "tcp://127.0.0.1:*"}) {
  info_ = {.id = id, .role = "server", .address = mailbox_.address(), .public_key = {}};
  thread_ = std::thread([this] { run(); });
}

FakeServer::~FakeServer() {
  stop_ = true;
  mailbox_.wake();
  thread_.join();
}

void FakeServer::set_view(const View& view) {
  auto placement = std::make_shared<const SlicePlacement>(placement_of(view, model_.tensors, model_.slices));
  const std::lock_guard lock(mutex_);
  placement_ = std::move(placement);
}

void FakeServer::refuse(const std::string& code) {
  const std::lock_guard lock(mutex_);
  refuse_ = code;
}

void FakeServer::run() {
  std::vector<Received> parked;
  while (!stop_) {
    if (auto received = mailbox_.receive(std::chrono::milliseconds(2)); received && !mute) {
      const Message& request = received->message;
      if (request.kind == MessageKind::push) ++pushes_;
      if (const auto refused = refusal_of(request)) {
        ++refusals_;
        answer(received->from, *refused);
      } else {
        if (request.kind == MessageKind::push) take_push(request);
        parked.push_back(std::move(*received));
      }
    }
    std::erase_if(parked, [&](Received& entry) { return try_answer(entry.from, entry.message); });
  }
}

std::optional<Message> FakeServer::refusal_of(const Message& request) {
  const std::lock_guard lock(mutex_);
  const std::int64_t epoch = placement_ ? placement_->view.epoch : 0;
  Message refusal{.kind = MessageKind::refusal, .fields = {{"id", request.fields.at("id")}, {"epoch", epoch}}};
  const auto because = [&](const std::string& code) {
    refusal.fields["code"] = code;
    refusal.fields["why"] = "of the test's " + code;
    return refusal;
  };
  if (request.kind == MessageKind::status) return std::nullopt;
  if (!refuse_.empty()) return because(refuse_);
  if (request.fields.at("epoch").get<std::int64_t>() != epoch) return because("epoch");
  for (const int slice : request.fields.at("slices").get<std::vector<int>>()) {
    const int owner = placement_->owner[static_cast<std::size_t>(slice)];
    if (placement_->view.servers[static_cast<std::size_t>(owner)].id != info_.id) return because("owner");
  }
  return std::nullopt;
}

void FakeServer::take_push(const Message& push) {
  const std::lock_guard lock(model_.mutex);
  const auto slices = push.fields.at("slices").get<std::vector<int>>();
  const auto clock = push.fields.at("clock").get<std::int64_t>();
  const std::vector<Payload> parts = payload_parts(push, slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    FakeModel::HeldSlice& held = model_.held[static_cast<std::size_t>(slices[i])];
    auto& of_clock = held.pushes[clock];
    std::vector<float> values(held.values.size());
    decode(parts[i].bytes(), values);
    if (!of_clock.emplace(push.fields.at("shard").get<int>(), std::move(values)).second) ++model_.repeated;
    while (held.pushes[held.round].size() == static_cast<std::size_t>(model_.shards)) {
      for (const auto& [shard, change] : held.pushes[held.round])
        for (std::size_t k = 0; k < change.size(); ++k)
          held.values[k] -= push.fields.at("rate").get<float>() * change[k] / static_cast<float>(model_.shards);
      held.round += 1;
    }
  }
}

ServerStatus FakeServer::status() {
  ServerStatus status{.server = info_.id, .ids = {info_.id}, .settled = true};
  {
    const std::lock_guard lock(mutex_);
    status.epoch = placement_ ? placement_->view.epoch : 0;
    status.view = placement_ ? placement_->view.version : 0;
  }
  const std::lock_guard lock(model_.mutex);
  for (std::size_t i = 0; i < model_.held.size(); ++i) {
    const std::int64_t round = model_.held[i].round;
    status.slices.push_back({.slice = static_cast<int>(i),
                             .epoch = status.epoch,
                             .version = round,
                             .applied = std::vector(static_cast<std::size_t>(model_.shards), round)});
  }
  return status;
}

bool FakeServer::try_answer(PeerId peer, Message& request) {
  if (request.kind == MessageKind::status) {
    answer(peer, message_of(status(), request.fields.at("id")));
    return true;
  }
  Message reply{.kind = static_cast<MessageKind>(static_cast<int>(request.kind) + 1),
                .fields = {{"id", request.fields.at("id")}}};
  std::vector<std::byte> bytes;
  {
    const std::lock_guard lock(model_.mutex);
    const auto slices = request.fields.at("slices").get<std::vector<int>>();
    const auto clock = request.fields.value("clock", std::int64_t{0});
    std::vector<int> later;
    for (const int index : slices) {
      const FakeModel::HeldSlice& held = model_.held[static_cast<std::size_t>(index)];
      const std::vector<std::int64_t> applied(static_cast<std::size_t>(model_.shards), held.round);
      const std::size_t before = bytes.size();
      if (request.kind == MessageKind::push) {
        if (held.round <= clock) return false;
        continue;
      }
      if (request.kind == MessageKind::pull) {
        if (held.round < clock) {
          later.push_back(index);
          continue;
        }
        encode(held.values, {}, {}, bytes);
        reply.fields["slices"].push_back(index);
        reply.fields["oldest"].push_back(held.round);
      } else {
        reply.fields["slices"].push_back(
            {{"slice", index}, {"version", held.round}, {"updates", held.round}, {"applied", applied}});
        const auto plain = std::as_bytes(std::span(held.values));
        for (int arrays = 0; arrays < 2; ++arrays)  // the values, and one of the optimiser's state
          bytes.insert(bytes.end(), plain.begin(), plain.end());
      }
      reply.fields["sizes"].push_back(bytes.size() - before);
    }
    request.fields["slices"] = later;
    if (request.kind == MessageKind::pull && later.size() == slices.size()) return false;
  }
  if (request.kind == MessageKind::push)
    reply.fields = {{"ids", {request.fields.at("id")}}, {"late", nlohmann::json::array()}};
  reply.payload = Payload::own(std::move(bytes));
  answer(peer, reply);
  return request.kind != MessageKind::pull || request.fields.at("slices").empty();
}

void FakeServer::answer(PeerId peer, const Message& message) {
  if (lost_answers > 0) {
    --lost_answers;
    return;
  }
  mailbox_.send(peer, message);
}

View view_of(std::int64_t epoch, const std::vector<FakeServer*>& servers) {
  View view{.version = 10 * epoch, .epoch = epoch, .settled = true};
  for (const FakeServer* server : servers) view.servers.push_back(server->info());
  return view;
}

}  // namespace trifold::test
