// Releases as runs of segments, looked up when a conflict has to be judged.
#include "ptx/serial_order.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

namespace gpusim::ptx {

void SerialOrder::begin_launch(std::uint32_t /*blocks*/) {
  any_fence_ = false;
  variables_.clear();
  acquired_.clear();
}

void SerialOrder::begin_turn(std::uint32_t /*block*/, std::uint32_t segment) {
  block_first_ = segment;
  fenced_ = 0;
  acquired_.clear();
}

void SerialOrder::fence(std::uint32_t closed) {
  fenced_ = closed;
  any_fence_ = true;
}

void SerialOrder::synchronise(Address address, bool acquire, bool release) {
  if (!any_fence_) return;  // nothing was released so far
  const bool releases_something = release && fenced_ != 0;
  auto found = variables_.find(address);
  if (found == variables_.end()) {
    if (!releases_something) return;
    found = variables_.try_emplace(address).first;
  }
  SyncVariable& variable = found->second;
  if (acquire && std::find(acquired_.begin(), acquired_.end(), &variable) == acquired_.end())
    acquired_.push_back(&variable);
  if (!releases_something) return;
  if (!variable.releases.empty() && variable.releases.back().first == block_first_) {
    variable.releases.back().last = fenced_;
  } else {
    variable.releases.push_back({block_first_, fenced_});
  }
  for (const SyncVariable* other : acquired_) {
    if (other == &variable) continue;
    auto known = std::find_if(variable.inherited.begin(), variable.inherited.end(),
                              [other](const auto& entry) { return entry.first == other; });
    if (known == variable.inherited.end()) {
      variable.inherited.emplace_back(other, block_first_);
    } else {
      known->second = block_first_;
    }
  }
}

bool SerialOrder::releases(const SyncVariable& variable, std::uint32_t segment, std::uint32_t before) {
  auto after = std::upper_bound(variable.releases.begin(), variable.releases.end(), segment,
                                [](std::uint32_t value, const auto& release) { return value < release.first; });
  if (after == variable.releases.begin()) return false;
  const auto& release = *std::prev(after);
  return segment <= release.last && release.first < before;
}

// Goes back from variable to variable, the latest knowledge first: a variable that is met again was known at least as
// well before.
bool SerialOrder::is_before(std::uint32_t /*block*/, std::uint32_t segment) const {
  using Known = std::pair<std::uint32_t, const SyncVariable*>;  // what was released there before that segment
  std::priority_queue<Known> open;
  for (const SyncVariable* variable : acquired_) open.emplace(block_first_, variable);
  std::unordered_set<const SyncVariable*> seen;
  while (!open.empty()) {
    const auto [before, variable] = open.top();
    open.pop();
    if (!seen.insert(variable).second) continue;
    if (releases(*variable, segment, before)) return true;
    for (const auto& [other, upto] : variable->inherited)
      if (!seen.contains(other)) open.emplace(std::min(upto, before), other);
  }
  return false;
}

}  // namespace gpusim::ptx
