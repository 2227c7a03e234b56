// The order of blocks that run one after the other, each in one turn. There may be very many of them, so what a block
// has acquired is the variables it came by, not a clock over all blocks.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx/block_order.h"

namespace gpusim::ptx {

class SerialOrder final : public BlockOrder {
 public:
  void begin_launch(std::uint32_t blocks) override;
  void begin_turn(std::uint32_t block, std::uint32_t segment) override;
  void fence(std::uint32_t closed) override;
  void synchronise(Address address, bool acquire, bool release) override;
  bool is_before(std::uint32_t block, std::uint32_t segment) const override;

 private:
  struct SyncVariable {
    struct Release {
      std::uint32_t first, last;  // segments of one block
    };
    std::vector<Release> releases;  // ascending
    // What the releasing blocks had acquired themselves, and how far.
    std::vector<std::pair<const SyncVariable*, std::uint32_t>> inherited;
  };

  static bool releases(const SyncVariable& variable, std::uint32_t segment, std::uint32_t before);

  std::uint32_t block_first_ = 1;  // first segment of the block at hand
  std::uint32_t fenced_ = 0;       // last segment of the block that a fence closed; 0: none
  bool any_fence_ = false;         // in this launch
  std::unordered_map<Address, SyncVariable> variables_;
  std::vector<const SyncVariable*> acquired_;  // by the block at hand
};

}  // namespace gpusim::ptx
