// What orders the blocks of one launch among themselves: a fence followed by an atomic on some address releases what
// the block did before the fence; a later atomic on that address by another block acquires it. Time is cut into
// segments (see block_races.h); a turn is a run of segments of one block.
#pragma once

#include <cstdint>

#include "engine/device_memory.h"

namespace gpusim::ptx {

class BlockOrder {
 public:
  virtual ~BlockOrder() = default;

  virtual void begin_launch(std::uint32_t blocks) = 0;
  virtual void begin_turn(std::uint32_t block, std::uint32_t segment) = 0;  // its first segment
  virtual void fence(std::uint32_t closed) = 0;                             // the segment that it ends
  // An atomic (or acquire load, release store) on the address.
  virtual void synchronise(Address address, bool acquire, bool release) = 0;

  // Whether what `block` did in `segment` comes before what the block at hand does now.
  virtual bool is_before(std::uint32_t block, std::uint32_t segment) const = 0;
};

}  // namespace gpusim::ptx
