// How a mailbox's payloads come to peers of the same user and machine without being sent: they are put into memory that
// the peer maps, and a place is sent instead (shared_memory.h). A mailbox offers its memory to a peer when it first has
// something long for it; until that says that it has mapped it, if it ever does, payloads are sent as they are. It says
// so before it next has something to say: to answer at once could reach a peer that has ended, and TCP throws away what
// is unread of one that is gone and was spoken to.
// Whoever gets a place in memory it does not know, since it began anew behind the same address, says so, and the memory
// is offered again; the message is lost, as others are that were on their way to its predecessor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parallel/servers/wire/mailbox.h"
#include "parallel/servers/wire/message.h"
#include "parallel/servers/wire/shared_memory.h"

namespace trifold {

// Where a payload is. It never leaves the machine, and is sent as it lies in memory.
struct SharedPlace {
  std::uint64_t memory = 0;
  std::uint32_t block = 0;
  std::uint32_t bytes = 0;
};

class PayloadSharing {
 public:
  // `blocks`: at most, of this mailbox; 0: nothing is offered, and no offer is taken.
  explicit PayloadSharing(std::size_t blocks) : blocks_(blocks) {}

  // --- what is sent

  bool worth_it(const Payload& payload) const;
  // What has to be sent to the peer first; null: nothing, or no more.
  std::optional<Message> offer_to(PeerId peer);
  void offered(PeerId peer) { peers_[peer] = Peer::was_offered; }
  // Likewise, before whatever is said to it.
  std::optional<Message> answer_to(PeerId peer) const;
  void answered(PeerId peer) { answers_.erase(peer); }
  // Null: it is sent as it is.
  std::optional<SharedPlace> place_for(PeerId peer, const Payload& payload);
  void not_sent(const SharedPlace& place);

  // --- what comes

  void take_offer(PeerId from, const Message& offer);
  void take_answer(PeerId from, const Message& answer);
  // Null: that is no place, or in memory that is not known here.
  std::optional<Payload> payload_at(std::span<const std::byte> place) const;
  // What is answered to the second; null: it is no place.
  static std::optional<Message> unknown(std::span<const std::byte> place);

  // The peer is not spoken to any more.
  void forget(PeerId peer);

 private:
  enum class Peer { was_offered, reads, declined };
  struct View {
    PeerId from = 0;
    std::shared_ptr<SharedView> memory;
  };
  struct Answer {
    std::uint64_t memory = 0;
    bool reads = false;
  };

  std::size_t blocks_;
  std::unique_ptr<SharedBlocks> own_;
  std::map<PeerId, Peer> peers_;      // what they said to the offer of `own_`
  std::vector<View> views_;           // the latest last
  std::map<PeerId, Answer> answers_;  // to offers, not yet given
};

}  // namespace trifold
