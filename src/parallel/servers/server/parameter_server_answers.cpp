// What a server owes: pushes are answered when they are safe, pulls when the values are new enough for who asks.
#include <algorithm>
#include <utility>

#include "parallel/servers/server/parameter_server.h"
#include "parallel/servers/wire/frame.h"

namespace trifold {
namespace {

// It is read twice, and caches have it the second time.
constexpr std::size_t kPullAnswerBytes = std::size_t{256} << 10;

}  // namespace

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
      SafePushes& safe_ones = safe_pushes_[push->second.from];
      safe_ones.ids.push_back(push->second.id);
      if (push->second.late) safe_ones.late.push_back(push->second.id);
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

void ParameterServer::send_answers() {
  unsent_ = 0;
  for (auto& [worker, safe] : std::exchange(safe_pushes_, {}))
    args_.mailbox->send(worker, {.kind = MessageKind::push_answer, .fields = {{"ids", safe.ids}, {"late", safe.late}}});
  send_ready_pulls();
}

// Several workers' pulls become ready together: what they wait for is encoded once, and shared.
void ParameterServer::send_ready_pulls() {
  std::map<ReadyPull, std::vector<Message>> encoded;
  for (auto& [pull, ready] : std::exchange(ready_pulls_, {})) {
    const auto [answers, is_new] = encoded.try_emplace(std::move(ready));
    if (is_new) answers->second = pull_answers(answers->first);
    for (Message& answer : answers->second) {
      answer.fields["id"] = pull.second;
      args_.mailbox->send(pull.first, answer);
    }
  }
}

std::vector<Message> ParameterServer::pull_answers(const ReadyPull& ready) const {
  std::vector<Message> answers;
  for (auto first = ready.slices.begin(); first != ready.slices.end();) {
    std::size_t room = 0;
    auto last = first;
    while (last != ready.slices.end() && room < kPullAnswerBytes)
      room += encoded_bytes(args_.layout.elements_of(*last++));
    std::vector<std::byte> bytes = pool_.take(room);
    PayloadChecksum checksum;
    nlohmann::json sizes = nlohmann::json::array(), oldest = nlohmann::json::array();
    for (const int slice : std::span(first, last)) {
      const ServedSlice& served = owned_.at(slice).slice;
      const std::size_t before = bytes.size();
      encode(served.values_for(ready.clock), {}, {.half = args_.half_answers, .keep = 1}, bytes);
      checksum.add(std::span(bytes).subspan(before));
      sizes.push_back(bytes.size() - before);
      oldest.push_back(ready.clock - served.staleness_for(ready.clock));
    }
    Message& answer = answers.emplace_back();
    answer.kind = MessageKind::pull_answer;
    answer.fields = {{"slices", std::vector<int>(first, last)}, {"sizes", sizes}, {"oldest", oldest}};
    answer.payload = pool_.own(std::move(bytes));
    answer.payload.set_checksum(checksum.value());
    first = last;
  }
  return answers;
}

}  // namespace trifold
