// The numbers of peers that called here. ZeroMQ knows them by names that it makes up for each connection; which of them
// are gone it does not say, so those that were silent longest are forgotten when there are many.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "parallel/servers/wire/mailbox.h"

namespace trifold {

class IncomingPeers {
 public:
  explicit IncomingPeers(std::size_t most = 4096) : most_(most) {}

  // Of who just spoke; `next` is used, and grows, if it is a new one.
  PeerId number_of(std::string_view name, PeerId& next);
  // Null: forgotten, or never there.
  const std::string* name_of(PeerId peer) const;
  void forget(PeerId peer);
  std::size_t size() const { return by_silence_.size(); }

 private:
  struct Peer {
    PeerId number;
    std::string name;
  };
  using Place = std::list<Peer>::iterator;

  std::size_t most_;
  std::list<Peer> by_silence_;  // the silent ones last
  std::unordered_map<std::string_view, Place> by_name_;
  std::unordered_map<PeerId, Place> by_number_;
};

}  // namespace trifold
