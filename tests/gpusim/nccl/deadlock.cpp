#include "nccl/deadlock.h"

#include <algorithm>

#include "nccl/operation.h"
#include "nccl/peer_process.h"

namespace gpusim {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// A little less than the streams' own clock allows, which knows no ranks.
constexpr double kShareOfLimit = 0.9;
// Hosts that wait ask many times a second; after such a pause nobody was waiting in between.
constexpr Seconds kPause{2};
// A process that only waits uses less than this share of a core; one that computes, even on a crowded machine, more.
constexpr double kComputingShare = 0.02;

std::uint64_t cpu_ms_of(const World& world, const std::vector<int>& ranks) {
  std::uint64_t sum = 0;
  for (const int rank : ranks) sum += cpu_ms(world.board.rank(rank).process);
  return sum;
}

// Why the rank will never come; empty when it may.
std::string reason_of_absence(const World& world, int rank) {
  const auto& place = world.board.rank(rank);
  switch (place.presence.load()) {
    case Presence::left:
      return "has destroyed its communicator";
    case Presence::aborted:
      return "has aborted its communicator";
    default:
      return has_ended(place.process) ? "has ended" : "";
  }
}

std::string story_of(const ncclComm& comm, const Entry& entry, const std::vector<int>& missing) {
  const World& world = *comm.world;
  const auto& call = entry.calls.front();
  std::string text = text_of(call) + " of rank " + std::to_string(comm.rank) + " (#" +
                     std::to_string(entry.numbers.front()) + " on a communicator of " + std::to_string(world.ranks) +
                     " ranks): ";
  if (call.kind == NoteKind::collective) {
    std::vector<int> came;
    for (int rank = 0; rank < world.ranks; ++rank) {
      if (std::find(missing.begin(), missing.end(), rank) == missing.end()) came.push_back(rank);
    }
    text += list_of(came) + " came, " + list_of(missing) + " did not";
  } else {
    text += list_of(missing) + " never came to " + (call.kind == NoteKind::send ? "receive" : "send") + " it";
  }
  for (const int rank : missing) {
    const auto reason = reason_of_absence(world, rank);
    if (!reason.empty()) text += "; rank " + std::to_string(rank) + " " + reason;
  }
  return text;
}

}  // namespace

std::vector<int> departed_ranks(const World& world, const std::vector<int>& ranks) {
  std::vector<int> departed;
  for (const int rank : ranks) {
    if (!reason_of_absence(world, rank).empty()) departed.push_back(rank);
  }
  return departed;
}

bool is_deadlocked(ncclComm& comm, Entry& entry, const std::vector<int>& missing, const std::vector<int>& departed) {
  const World& world = *comm.world;
  const auto now = SteadyClock::now();
  const bool starts = now - entry.last_asked > kPause;
  entry.last_asked = now;
  if (starts) {
    entry.waited_since = now;
    entry.missing_cpu_ms = cpu_ms_of(world, missing);
  }
  const double waited_s = Seconds(now - entry.waited_since).count();
  if (departed.empty()) {
    if (waited_s < seconds_until_deadlock() * kShareOfLimit) return false;
    const std::uint64_t all_ms = cpu_ms_of(world, missing);
    const std::uint64_t used_ms = all_ms - std::min(entry.missing_cpu_ms, all_ms);
    if (static_cast<double>(used_ms) > 1000 * waited_s * kComputingShare) {
      entry.waited_since = now;
      entry.missing_cpu_ms = all_ms;
      wake_waiters();  // puts the streams' clock back too
      return false;
    }
  }
  refuse(ncclRemoteError, story_of(comm, entry, missing), Finding::deadlock);
  return true;
}

}  // namespace gpusim
