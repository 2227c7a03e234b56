#include "parallel/servers/server/owed_answers.h"

#include <span>

#include "parallel/servers/slices/gradient_codec.h"
#include "parallel/servers/wire/frame.h"

namespace trifold {
namespace {

constexpr std::size_t kMostPullsOfSlice = 1024;
// An answer is read twice, and caches have it the second time.
constexpr std::size_t kPullAnswerBytes = std::size_t{256} << 10;

}  // namespace

std::uint64_t OwedAnswers::begin_push(PeerId from, std::uint64_t id, std::size_t slices) {
  pushes_.emplace(next_push_, Push{.from = from, .id = id, .left = slices});
  return next_push_++;
}

void OwedAnswers::add_push(std::uint64_t push, int slice, ShardClock pushed) {
  of_slices_[slice].pushes.push_back({.push = push, .pushed = pushed});
}

bool OwedAnswers::add_pull(PeerId from, std::uint64_t id, int slice, std::int64_t clock) {
  std::vector<PullOfSlice>& pulls = of_slices_[slice].pulls;
  if (pulls.size() >= kMostPullsOfSlice) return false;
  pulls.push_back({.from = from, .id = id, .clock = clock});
  return true;
}

void OwedAnswers::settle_pushes(int slice, std::int64_t safe_version) {
  const ServedSlice& served = args_.slice(slice);
  std::erase_if(of_slices_[slice].pushes, [&](PushOfSlice& owed) {
    if (owed.version < 0 && served.contains(owed.pushed.shard, owed.pushed.clock))
      owed.version = served.state().version;
    if (owed.version < 0 || owed.version > safe_version) return false;
    const auto push = pushes_.find(owed.push);
    if (push == pushes_.end()) return true;  // another slice of it was refused
    if (--push->second.left == 0) {
      SafePushes& safe = safe_pushes_[push->second.from];
      safe.ids.push_back(push->second.id);
      if (push->second.late) safe.late.push_back(push->second.id);
      pushes_.erase(push);
    }
    return true;
  });
}

void OwedAnswers::settle_pulls(int slice) {
  const ServedSlice& served = args_.slice(slice);
  std::erase_if(of_slices_[slice].pulls, [&](const PullOfSlice& owed) {
    if (!served.ready_for(owed.clock)) return false;
    ReadyPull& ready = ready_pulls_[{owed.from, owed.id}];
    ready.clock = owed.clock;
    ready.slices.push_back(slice);
    return true;
  });
}

void OwedAnswers::send() {
  for (auto& [worker, safe] : std::exchange(safe_pushes_, {}))
    args_.mailbox->send(worker, {.kind = MessageKind::push_answer, .fields = {{"ids", safe.ids}, {"late", safe.late}}});
  send_ready_pulls();
}

// The pulls of several workers become ready together: what they wait for is encoded once, and shared.
void OwedAnswers::send_ready_pulls() {
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

std::vector<Message> OwedAnswers::pull_answers(const ReadyPull& ready) const {
  std::vector<Message> answers;
  for (auto first = ready.slices.begin(); first != ready.slices.end();) {
    std::size_t room = 0;
    auto last = first;
    while (last != ready.slices.end() && room < kPullAnswerBytes)
      room += encoded_bytes(args_.layout->elements_of(*last++));
    std::vector<std::byte> bytes = pool_.take(room);
    PayloadChecksum checksum;
    nlohmann::json sizes = nlohmann::json::array(), oldest = nlohmann::json::array();
    for (const int slice : std::span(first, last)) {
      const ServedSlice& served = args_.slice(slice);
      const std::size_t before = bytes.size();
      encode(served.values_for(ready.clock), {}, {.half = args_.half, .keep = 1}, bytes);
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

void OwedAnswers::clear() {
  pushes_.clear();
  of_slices_.clear();
  safe_pushes_.clear();
  ready_pulls_.clear();
}

}  // namespace trifold
