#include "parallel/servers/wire/incoming_peers.h"

namespace trifold {

PeerId IncomingPeers::number_of(std::string_view name, PeerId& next) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    by_silence_.splice(by_silence_.begin(), by_silence_, found->second);
    return found->second->number;
  }
  if (by_silence_.size() >= most_) forget(by_silence_.back().number);
  by_silence_.push_front({next++, std::string(name)});
  const Place place = by_silence_.begin();
  by_name_.emplace(place->name, place);
  by_number_.emplace(place->number, place);
  return place->number;
}

const std::string* IncomingPeers::name_of(PeerId peer) const {
  const auto found = by_number_.find(peer);
  return found == by_number_.end() ? nullptr : &found->second->name;
}

void IncomingPeers::forget(PeerId peer) {
  const auto found = by_number_.find(peer);
  if (found == by_number_.end()) return;
  const Place place = found->second;
  by_number_.erase(found);
  by_name_.erase(place->name);
  by_silence_.erase(place);
}

}  // namespace trifold
