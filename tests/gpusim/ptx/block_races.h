// Races between the blocks of one launch on global memory: two accesses by different blocks that nothing orders (see
// block_order.h). Blocks run one after the other, or take turns.
//
// Time is cut into segments: a turn of a block starts one, and so does each of its fences. Memory remembers the segment
// of the last plain write, the first and last plain read (where blocks take turns: since that write) and the last
// atomic of each grain (4 bytes, less where narrower accesses came). Segments only grow, over all launches, so nothing
// has to be cleared between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ptx/serial_order.h"
#include "ptx/turn_order.h"

namespace gpusim::ptx {

// Strong accesses (volatile and atomics) do not race with each other. `atomic` reads what it changes.
enum class Use : std::uint8_t { read, write, strong_read, strong_write, atomic };
inline bool is_read(Use use) {
  return use == Use::read || use == Use::strong_read;
}
inline bool needs_value(Use use) {
  return is_read(use) || use == Use::atomic;
}
inline bool is_strong_change(Use use) {
  return use == Use::strong_write || use == Use::atomic;
}

class BlockRaces {
 public:
  static BlockRaces& get();  // never destroyed

  void begin_launch(std::uint32_t blocks, bool take_turns);
  void begin_turn(std::uint32_t block);
  void fence() { order_->fence(segment_++); }
  // An atomic (or acquire load, release store) on the address.
  void synchronise(Address address, bool acquire, bool release) { order_->synchronise(address, acquire, release); }

  struct Verdict {
    bool first_touch = false;       // the launch had not accessed all of it so before
    std::uint32_t conflict = 0;     // segment of the other access; 0: none
    const char* other_access = "";  // "written", "read", "changed by an atomic"
  };
  Verdict access(Address address, std::size_t bytes, Use use);

  std::uint32_t block_of(std::uint32_t segment) const;  // number of the block within the launch

 private:
  static constexpr unsigned kPageShift = 12;
  static constexpr std::size_t kPageBytes = std::size_t{1} << kPageShift;

  struct Page {
    unsigned shift = 2;                // log2 of the grain
    std::vector<std::uint32_t> cells;  // four rows: written, first read, last read, atomic
    std::size_t grains() const { return kPageBytes >> shift; }
    void refine(unsigned to_shift);
  };
  struct Turn {
    std::uint32_t first;  // segment
    std::uint32_t block;
  };

  Page& page_of(Address address);
  void access_in_page(Page& page, std::size_t begin, std::size_t end, Use use, Verdict& verdict);
  void judge(const std::uint32_t* row, std::size_t begin, std::size_t end, const char* what, Verdict& verdict) const;
  void forget();

  std::uint32_t segment_ = 1;
  std::uint32_t launch_first_ = 1;
  std::uint32_t turn_first_ = 1;
  std::vector<Turn> turns_;
  SerialOrder serial_order_;
  TurnOrder turn_order_;
  BlockOrder* order_ = &serial_order_;  // of the launch at hand

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::size_t page_memory_ = 0;  // bytes of all cells
  static constexpr std::size_t kCached = 256;
  struct Cached {
    std::uint64_t number = ~std::uint64_t{0};
    Page* page = nullptr;
  };
  std::vector<Cached> cache_ = std::vector<Cached>(kCached);
};

}  // namespace gpusim::ptx
