#include "parallel/servers/server/replica_keeper.h"

#include <algorithm>

namespace trifold {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{4} << 20;
constexpr std::chrono::seconds kPatience{2};

}  // namespace

void ReplicaKeeper::add(int slice, PeerId replica) {
  slices_.insert_or_assign(slice, Copy{.replica = replica});
}

void ReplicaKeeper::send_due() {
  const Clock::time_point now = Clock::now();
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    if (now - sent->second.at < kPatience) {
      ++sent;
      continue;
    }
    for (const Sent::Part& part : sent->second.parts) {
      slices_.at(part.slice).on_its_way = false;
      slices_.at(part.slice).dirty = true;
    }
    sent = sent_.erase(sent);
  }
  std::map<PeerId, std::vector<int>> due;
  std::map<PeerId, std::size_t> bytes;
  for (auto& [slice, copy] : slices_) {
    if (!copy.dirty || copy.on_its_way) continue;
    due[copy.replica].push_back(slice);
    bytes[copy.replica] += args_.layout->state_bytes(slice);
    if (bytes[copy.replica] < kMessageBytes) continue;
    send(copy.replica, std::exchange(due[copy.replica], {}));
    bytes[copy.replica] = 0;
  }
  for (const auto& [replica, slices] : due)
    if (!slices.empty()) send(replica, slices);
}

void ReplicaKeeper::send(PeerId replica, const std::vector<int>& slices) {
  std::vector<NumberedState> states;
  Sent sent{.parts = {}, .at = Clock::now()};
  for (const int slice : slices) {
    SliceState& state = states.emplace_back(slice, args_.state(slice)).second;
    state.before = nullptr;  // the replica has had it
    state.cuts.erase(state.cuts.begin(), state.cuts.upper_bound(slices_.at(slice).safe_cut));
    sent.parts.push_back({.slice = slice,
                          .version = state.version,
                          .cut = state.cuts.empty() ? slices_.at(slice).safe_cut : state.cuts.rbegin()->first});
  }
  const std::uint64_t id = next_id_++;
  Message message{.kind = MessageKind::replicate, .fields = {{"id", id}, {"epoch", args_.epoch}}};
  put_states(message, states, *args_.layout, true);
  if (!args_.mailbox->send(replica, message)) return;  // its queue is full: they stay due
  for (const int slice : slices) {
    slices_.at(slice).dirty = false;
    slices_.at(slice).on_its_way = true;
  }
  sent_.emplace(id, std::move(sent));
}

std::vector<int> ReplicaKeeper::take_answer(std::uint64_t id) {
  std::vector<int> safer;
  const auto sent = sent_.find(id);
  if (sent == sent_.end()) return safer;
  for (const Sent::Part& part : sent->second.parts) {
    Copy& copy = slices_.at(part.slice);
    copy.on_its_way = false;
    copy.safe = std::max(copy.safe, part.version);
    copy.safe_cut = std::max(copy.safe_cut, part.cut);
    safer.push_back(part.slice);
  }
  sent_.erase(sent);
  return safer;
}

}  // namespace trifold
