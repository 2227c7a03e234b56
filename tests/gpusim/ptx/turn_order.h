// The order of blocks that take turns, as those of a cooperative launch do: a vector clock for each block and each
// variable they meet at. There are at most as many blocks as the device holds at once.
#pragma once

#include <unordered_map>
#include <vector>

#include "ptx/block_order.h"

namespace gpusim::ptx {

class TurnOrder final : public BlockOrder {
 public:
  void begin_launch(std::uint32_t blocks) override;
  void begin_turn(std::uint32_t block, std::uint32_t segment) override;
  void fence(std::uint32_t closed) override;
  void synchronise(Address address, bool acquire, bool release) override;
  bool is_before(std::uint32_t block, std::uint32_t segment) const override;

 private:
  using Clock = std::vector<std::uint32_t>;  // by block: the last of its segments that is known; 0: none
  static void join(Clock& clock, const Clock& other);

  struct Block {
    Clock known;     // what it has acquired
    Clock released;  // what its next atomic hands on: known and done before its last fence; empty: no fence yet
  };
  std::vector<Block> blocks_;
  std::uint32_t block_ = 0;  // the one at hand
  std::unordered_map<Address, Clock> variables_;
};

}  // namespace gpusim::ptx
