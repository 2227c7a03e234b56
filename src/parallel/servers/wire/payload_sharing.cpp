#include "parallel/servers/wire/payload_sharing.h"

#include <algorithm>
#include <cstring>

namespace trifold {
namespace {

// A short payload is sent as quickly as it is put elsewhere.
constexpr std::size_t kLeastShared = std::size_t{16} << 10;
// Of another mailbox, that are mapped here.
constexpr std::size_t kMostBlocks = 1024;
// Peers whose offers are remembered. Of many that call here and go, nobody says that they are gone.
constexpr std::size_t kMostPeers = 4096;

std::optional<SharedPlace> place_from(std::span<const std::byte> bytes) {
  SharedPlace place;
  if (bytes.size() != sizeof place) return std::nullopt;
  std::memcpy(&place, bytes.data(), sizeof place);
  return place;
}

}  // namespace

bool PayloadSharing::worth_it(const Payload& payload) const {
  return blocks_ > 0 && payload.size() >= kLeastShared && payload.size() <= kSharedBlockBytes;
}

std::optional<Message> PayloadSharing::offer_to(PeerId peer) {
  if (blocks_ == 0 || peers_.contains(peer)) return std::nullopt;
  if (!own_) own_ = SharedBlocks::make(blocks_);
  if (!own_) {
    blocks_ = 0;
    return std::nullopt;
  }
  const SharedMemoryOffer offer = own_->offer();
  return Message{.kind = MessageKind::share,
                 .fields = {{"memory", offer.id}, {"process", offer.process}, {"descriptor", offer.descriptor}}};
}

std::optional<SharedPlace> PayloadSharing::place_for(PeerId peer, const Payload& payload) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second != Peer::reads) return std::nullopt;
  const std::optional<std::uint32_t> block = own_->lend(payload);
  if (!block) return std::nullopt;
  return SharedPlace{.memory = own_->offer().id, .block = *block, .bytes = static_cast<std::uint32_t>(payload.size())};
}

void PayloadSharing::not_sent(const SharedPlace& place) {
  if (own_ && own_->offer().id == place.memory) own_->take_back(place.block);
}

std::optional<Message> PayloadSharing::answer_to(PeerId peer) const {
  const auto found = answers_.find(peer);
  if (found == answers_.end()) return std::nullopt;
  return Message{.kind = MessageKind::share_answer,
                 .fields = {{"memory", found->second.memory}, {"reads", found->second.reads}}};
}

void PayloadSharing::take_offer(PeerId from, const Message& offer) {
  const SharedMemoryOffer offered{.id = offer.fields.at("memory").get<std::uint64_t>(),
                                  .process = offer.fields.at("process").get<std::int64_t>(),
                                  .descriptor = offer.fields.at("descriptor").get<int>()};
  // What the peer had before, it has said all about. Memory of the dead is kept by nobody but us.
  std::erase_if(views_, [&](const View& view) { return view.from == from || view.memory->abandoned(); });
  const auto known = std::ranges::find(views_, offered.id, [](const View& view) { return view.memory->id(); });
  std::shared_ptr<SharedView> memory;
  if (blocks_ > 0) memory = known != views_.end() ? known->memory : SharedView::open(offered, kMostBlocks);
  const bool reads = memory != nullptr;
  if (reads) views_.push_back({.from = from, .memory = std::move(memory)});
  if (views_.size() > kMostPeers) views_.erase(views_.begin());
  answers_[from] = {.memory = offered.id, .reads = reads};
  if (answers_.size() > kMostPeers) answers_.erase(answers_.begin());
}

void PayloadSharing::take_answer(PeerId from, const Message& answer) {
  const auto found = peers_.find(from);
  if (found == peers_.end() || !own_ || answer.fields.at("memory") != own_->offer().id) return;
  if (answer.fields.value("unknown", false))
    peers_.erase(found);
  else
    found->second = answer.fields.at("reads").get<bool>() ? Peer::reads : Peer::declined;
}

std::optional<Payload> PayloadSharing::payload_at(std::span<const std::byte> bytes) const {
  const std::optional<SharedPlace> place = place_from(bytes);
  if (!place) return std::nullopt;
  const auto known = std::ranges::find(views_, place->memory, [](const View& view) { return view.memory->id(); });
  return known == views_.end() ? std::nullopt : known->memory->payload(place->block, place->bytes);
}

std::optional<Message> PayloadSharing::unknown(std::span<const std::byte> bytes) {
  const std::optional<SharedPlace> place = place_from(bytes);
  if (!place) return std::nullopt;
  return Message{.kind = MessageKind::share_answer,
                 .fields = {{"memory", place->memory}, {"reads", false}, {"unknown", true}}};
}

// Blocks that such a peer was told of may never come back. All are given up: who still reads them has them mapped.
void PayloadSharing::forget(PeerId peer) {
  std::erase_if(views_, [&](const View& view) { return view.from == peer; });
  answers_.erase(peer);
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  const bool had_blocks = found->second == Peer::reads;
  peers_.erase(found);
  if (!had_blocks) return;
  own_.reset();
  peers_.clear();
}

}  // namespace trifold
