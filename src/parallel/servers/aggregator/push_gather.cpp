#include "parallel/servers/aggregator/push_gather.h"

#include <algorithm>

#include "core/error.h"
#include "parallel/servers/slices/gradient_codec.h"

namespace trifold {

PushGather::PushGather(GatherOptions options)
    : options_(std::move(options)),
      newest_(static_cast<std::size_t>(options_.participation.shards), -1),
      slices_(options_.slices.size()) {
  TRIFOLD_CHECK(options_.rule->combines_in_parts(), "{} needs every push by itself", options_.rule->name());
}

const ServedTensor& PushGather::tensor_of(int slice) const {
  return options_.tensors[static_cast<std::size_t>(options_.slices[static_cast<std::size_t>(slice)].tensor)];
}

// Statistics that shards move on one after the other are small, and servers want each of them.
bool PushGather::combines(int slice) const {
  return tensor_of(slice).trained || tensor_of(slice).keeps == 0;
}

std::span<const float> PushGather::numbers(int slice, const Payload& encoding, std::vector<float>& room) const {
  const auto elements = static_cast<std::size_t>(options_.slices[static_cast<std::size_t>(slice)].elements());
  if (const float* plain = plain_floats(encoding.bytes(), elements)) return {plain, elements};
  room.resize(elements);
  decode(encoding.bytes(), room);
  return room;
}

void PushGather::expect(std::vector<int> shards) {
  expected_ = std::move(shards);
  Batches batches;
  for (const auto& [clock, slice] : std::set(waiting_))
    if (complete(clock, of(slice).clocks.at(clock))) send(clock, slice, batches);
  close(std::move(batches));
}

void PushGather::add(const WorkerPush& push) {
  std::vector<float> room;
  for (std::size_t i = 0; i < push.slices.size(); ++i) numbers(push.slices[i], push.encodings[i], room);
  std::int64_t& newest = newest_[static_cast<std::size_t>(push.shard)];
  newest = std::max(newest, push.clock);
  const auto debt = std::make_shared<Debt>(Debt{.to = push.from, .left = push.slices.size()});
  Batches batches;
  for (std::size_t i = 0; i < push.slices.size(); ++i) {
    const int slice = push.slices[i];
    if (push.clock < of(slice).done) {
      settle(*debt, false);
      continue;
    }
    Group& group = of(slice).clocks[push.clock];
    const auto [held, fresh] = group.try_emplace(push.shard);
    held->second.debt = debt;
    if (!fresh) continue;  // the same waits here, or is on its way
    held->second.encoding = push.encodings[i];
    held->second.weight = push.weight;
    held->second.rate = push.rate;
    waiting_.emplace(push.clock, slice);
    // Who sends again may have heard from elsewhere that others' are safe, and they are not sent here then.
    if (push.again || !combines(slice) || complete(push.clock, group)) send(push.clock, slice, batches);
  }
  // Whoever has come to this clock does not push for earlier ones any more.
  const std::vector<std::pair<std::int64_t, int>> earlier(waiting_.begin(), waiting_.lower_bound({push.clock, 0}));
  for (const auto& [clock, slice] : earlier)
    if (complete(clock, of(slice).clocks.at(clock))) send(clock, slice, batches);
  close(std::move(batches));
}

// All that are to come have come, or never will.
bool PushGather::complete(std::int64_t clock, const Group& group) const {
  const std::vector<bool> drawn = options_.participation.in_round(clock);
  return std::ranges::all_of(expected_, [&](int shard) {
    const auto index = static_cast<std::size_t>(shard);
    return !drawn[index] || newest_[index] > clock || group.contains(shard);
  });
}

// --- to the servers

void PushGather::send(std::int64_t clock, int slice, Batches& batches) {
  waiting_.erase({clock, slice});
  std::vector<int> shards;
  Group& group = of(slice).clocks.at(clock);
  for (auto& [shard, held] : group)
    if (!std::exchange(held.sent, true)) shards.push_back(shard);
  if (shards.size() > 1 && combines(slice)) return add_combined(clock, slice, shards, batches);
  for (const int shard : shards) add_one(clock, slice, shard, group.at(shard), batches);
}

void PushGather::add_one(std::int64_t clock, int slice, int shard, const Held& held, Batches& batches) const {
  GatheredPush& push = batches[{clock, {shard}}].push;
  push.clock = clock;
  push.shards = {shard};
  push.weight = held.weight;
  push.rate = held.rate;
  push.slices.push_back(slice);
  push.encodings.push_back(held.encoding);
}

void PushGather::add_combined(std::int64_t clock, int slice, const std::vector<int>& shards, Batches& batches) {
  const Group& group = of(slice).clocks.at(clock);
  std::vector<std::vector<float>> rooms(shards.size());
  std::vector<Contribution> contributions;
  double weight = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Held& held = group.at(shards[i]);
    contributions.push_back({.values = numbers(slice, held.encoding, rooms[i]).data(), .weight = held.weight});
    weight += held.weight;
  }
  std::vector<float> combined(static_cast<std::size_t>(options_.slices[static_cast<std::size_t>(slice)].elements()));
  options_.rule->combine(contributions, combined);

  Batch& batch = batches[{clock, shards}];
  batch.push.clock = clock;
  batch.push.shards = shards;
  batch.push.weight = weight;
  batch.push.rate = group.at(shards.front()).rate;
  batch.push.slices.push_back(slice);
  const bool half = options_.half && tensor_of(slice).trained;
  std::vector<float>& left = of(slice).left;
  if (half) left.resize(combined.size());
  encode(combined, left, {.half = half}, batch.bytes);
  batch.ends.push_back(batch.bytes.size());
}

void PushGather::close(Batches&& batches) {
  for (auto& [key, batch] : batches) {
    std::size_t begin = 0;
    const Payload bytes = Payload::own(std::move(batch.bytes));
    for (const std::size_t end : batch.ends) {
      batch.push.encodings.push_back(bytes.part(begin, end - begin));
      begin = end;
    }
    ready_.push_back(std::move(batch.push));
  }
}

// --- what servers say

void PushGather::settle(Debt& debt, bool late) {
  debt.late = debt.late || late;
  debt.left -= 1;
  if (debt.left == 0) answers_.push_back({.to = debt.to, .late = debt.late});
}

// A round is complete with the pushes of all shards, so all that is held of it is in it; and rounds follow each other.
void PushGather::acknowledged(std::int64_t clock, int slice, bool late) {
  OfSlice& here = of(slice);
  here.done = std::max(here.done, clock + 1);
  const auto end = here.clocks.lower_bound(here.done);
  for (auto of_clock = here.clocks.begin(); of_clock != end; of_clock = here.clocks.erase(of_clock)) {
    for (auto& [shard, held] : of_clock->second) settle(*held.debt, late);
    waiting_.erase({of_clock->first, slice});
  }
}

void PushGather::overlapped(std::int64_t clock, std::span<const int> shards, std::span<const int> slices) {
  Batches batches;
  for (const int slice : slices) {
    const auto group = of(slice).clocks.find(clock);
    if (group == of(slice).clocks.end()) continue;  // the round has been completed meanwhile
    for (const int shard : shards)
      if (const auto held = group->second.find(shard); held != group->second.end())
        add_one(clock, slice, shard, held->second, batches);
  }
  close(std::move(batches));
}

std::vector<Asker> PushGather::refused(std::int64_t clock, std::span<const int> shards, std::span<const int> slices) {
  std::set<Asker> askers;
  for (const int slice : slices) {
    const auto group = of(slice).clocks.find(clock);
    if (group == of(slice).clocks.end()) continue;
    for (const int shard : shards) {
      const auto held = group->second.find(shard);
      if (held == group->second.end()) continue;
      askers.insert(held->second.debt->to);
      group->second.erase(held);
    }
    if (!group->second.empty()) continue;
    of(slice).clocks.erase(group);
    waiting_.erase({clock, slice});
  }
  return {askers.begin(), askers.end()};
}

}  // namespace trifold
