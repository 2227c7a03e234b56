#include "parallel/servers/server/missing_slices.h"

#include <vector>

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kAskAgain{500};
constexpr std::size_t kFetchedBytes = std::size_t{4} << 20;  // asked for in one message, and so answered in one

}  // namespace

void MissingSlices::ask(std::int64_t epoch) {
  asked_ = Clock::now();
  std::map<std::string, std::vector<int>> by_member;
  for (const auto& [slice, member] : member_of_) by_member[member].push_back(slice);
  for (const auto& [member, slices] : by_member) {
    const PeerId peer = args_.peer_of(member);
    std::vector<int> part;
    std::size_t bytes = 0;
    const auto send = [&] {
      args_.mailbox->send(peer,
                          {.kind = MessageKind::fetch,
                           .fields = {{"id", 0}, {"epoch", epoch}, {"slices", part}, {"cut", -1}, {"history", true}}});
      part.clear();
      bytes = 0;
    };
    for (const int slice : slices) {
      part.push_back(slice);
      bytes += args_.layout->state_bytes(slice);
      if (bytes >= kFetchedBytes) send();
    }
    if (!part.empty()) send();
  }
}

void MissingSlices::ask_again(std::int64_t epoch) {
  if (!empty() && Clock::now() - asked_ > kAskAgain) ask(epoch);
}

}  // namespace trifold
