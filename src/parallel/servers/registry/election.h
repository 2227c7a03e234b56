// Who leads: the manager whose name stands under kLeaderName, as long as the lease lives that it was written with. What
// a leader writes it writes by put_if, from the revision it saw, so one that does not know yet that it leads no more
// cannot undo what its successor wrote.
#pragma once

#include <chrono>
#include <optional>

#include "parallel/servers/registry/registry.h"
#include "parallel/servers/view.h"

namespace trifold {

class Election {
 public:
  explicit Election(MemberInfo self) : self_(std::move(self)) {}

  // Tries to lead, with the lease of the member (Membership::lease); where somebody does, waits at most so long for its
  // end. True: this member leads, until that lease ends. Without a lease (0) nobody does. What the registry throws
  // comes through; then whether it leads is not known, and the next call finds out.
  bool campaign(Registry& registry, LeaseId lease, std::chrono::milliseconds timeout) const;

  // Null: nobody, or somebody who cannot be understood.
  static std::optional<MemberInfo> leader(Registry& registry);

 private:
  MemberInfo self_;
};

}  // namespace trifold
