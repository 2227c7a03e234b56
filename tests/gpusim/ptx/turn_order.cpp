// Vector clocks of blocks and of the variables they synchronise by.
#include "ptx/turn_order.h"

#include <algorithm>

namespace gpusim::ptx {

void TurnOrder::join(Clock& clock, const Clock& other) {
  for (std::size_t block = 0; block < clock.size(); ++block) clock[block] = std::max(clock[block], other[block]);
}

void TurnOrder::begin_launch(std::uint32_t blocks) {
  blocks_.assign(blocks, {.known = Clock(blocks), .released = {}});
  block_ = 0;
  variables_.clear();
}

void TurnOrder::begin_turn(std::uint32_t block, std::uint32_t /*segment*/) {
  block_ = block;
}

void TurnOrder::fence(std::uint32_t closed) {
  Block& block = blocks_[block_];
  block.released = block.known;
  block.released[block_] = closed;
}

void TurnOrder::synchronise(Address address, bool acquire, bool release) {
  Block& block = blocks_[block_];
  const bool releases_something = release && !block.released.empty();
  auto found = variables_.find(address);
  if (acquire && found != variables_.end()) join(block.known, found->second);
  if (!releases_something) return;
  if (found == variables_.end()) found = variables_.emplace(address, Clock(blocks_.size())).first;
  join(found->second, block.released);
}

bool TurnOrder::is_before(std::uint32_t block, std::uint32_t segment) const {
  return block == block_ || segment <= blocks_[block_].known[block];
}

}  // namespace gpusim::ptx
