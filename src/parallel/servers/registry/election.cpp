#include "parallel/servers/registry/election.h"

namespace trifold {
namespace {

std::optional<MemberInfo> member_in(const RegistryEntry& entry) {
  try {
    return member_from_text(entry.text);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

bool Election::campaign(Registry& registry, LeaseId lease, std::chrono::milliseconds timeout) const {
  if (lease == 0) return false;  // that name would outlive its leader
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto found = registry.get(kLeaderName);
    const auto leading = found ? member_in(*found) : std::nullopt;
    // Own: written by a call whose answer did not come, or with an earlier lease; from now on it lives by this one.
    if ((!found || (leading && leading->id == self_.id)) &&
        registry.put_if(kLeaderName, found ? found->revision : 0, to_text(self_), lease))
      return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    if (!found) continue;  // somebody was quicker
    std::int64_t revision = found->revision;
    registry.changes(kLeaderName, revision, left);
  }
}

std::optional<MemberInfo> Election::leader(Registry& registry) {
  const auto found = registry.get(kLeaderName);
  return found ? member_in(*found) : std::nullopt;
}

}  // namespace trifold
