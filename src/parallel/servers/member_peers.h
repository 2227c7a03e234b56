// The lines of one mailbox to other members: each is connected once, when something is first sent to it.
#pragma once

#include <map>
#include <string>

#include "parallel/servers/view.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

class MemberPeers {
 public:
  explicit MemberPeers(Mailbox* mailbox) : mailbox_(mailbox) {}

  PeerId of(const MemberInfo& member) {
    const auto [peer, added] = peers_.try_emplace(member.address, 0);
    if (added) peer->second = mailbox_->connect(member.address, member.public_key);
    return peer->second;
  }
  void disconnect_all() {
    for (const auto& [address, peer] : peers_) mailbox_->disconnect(peer);
    peers_.clear();
  }

 private:
  Mailbox* mailbox_;
  std::map<std::string, PeerId> peers_;  // by address
};

}  // namespace trifold
