// The shadow of a block's shared memory: which bytes were written, and races between threads. Two accesses by different
// warps, at least one a plain write, race when no barrier of the block lies between them; two lanes of one warp race
// when no warp-level synchronisation does either. Atomics do not race among themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ptx/block_races.h"

namespace gpusim::ptx {

class SharedRaces {
 public:
  // `grain`: the narrowest access of the kernel, 1, 2 or 4 bytes.
  void configure(std::size_t bytes, unsigned grain, std::size_t warps, bool has_partial_barriers);
  void begin_block();
  // Warps that have met: bits of `waiting` go on, those that only arrived at barrier `id` before do not learn anything.
  void barrier(std::uint32_t waiting, std::uint32_t id, bool is_complete);
  void arrive(std::uint32_t warp, std::uint32_t id);
  void warp_sync(std::uint32_t warp) { warp_times_[warp] = ++now_; }
  void begin_instruction() { ++now_; }

  struct Finding {
    enum class Kind : std::uint8_t { none, uninitialised, race } kind = Kind::none;
    std::uint32_t other_thread = 0;
    const char* other_access = "";
    std::uint32_t lane_index = 0;  // which element of a run
  };
  // One lane's access of `bytes` at `offset`, within bounds. `thread` = warp * 32 + lane.
  Finding access(std::size_t offset, std::size_t bytes, std::uint32_t thread, Use use);
  // The same for `count` lanes from `thread` on with consecutive elements.
  Finding access_run(std::size_t offset, std::size_t element_bytes, std::uint32_t thread, std::uint32_t count, Use use);
  // The same for lanes of a warp at any offsets: true when there is nothing to find. Otherwise nothing is recorded, and
  // the lanes have to go one by one.
  bool access_lanes(const std::uint64_t* offsets, std::uint32_t mask, std::size_t bytes, std::uint32_t warp, Use use);

 private:
  // Cheap tests that let through only what cannot be a finding.
  bool is_calm_for_reading(std::size_t cell) const {
    return write_time_[cell] - block_start_ < barrier_time_ - block_start_ && atomic_time_[cell] < block_start_;
  }
  bool is_calm_for_writing(std::size_t cell) const {
    return write_time_[cell] < barrier_time_ && read_time_[cell] < barrier_time_ && atomic_time_[cell] < barrier_time_;
  }
  bool is_race_with(std::uint32_t stamp, std::uint32_t other, std::uint32_t thread) const;
  Finding judge(std::size_t cell, std::uint32_t thread, Use use) const;
  void record(std::size_t cell, std::uint32_t thread, Use use);

  unsigned shift_ = 2;
  std::uint32_t now_ = 1;  // grows with every instruction and synchronisation
  std::uint32_t block_start_ = 1;
  std::uint32_t barrier_time_ = 1;  // of the last barrier of the block
  std::vector<std::uint32_t> warp_times_;
  // Only for kernels with barriers of some warps: up to when a warp knows what each other warp did, what arrived warps
  // knew, and the last read of each grain by each warp.
  bool has_partial_barriers_ = false;
  std::size_t warps_ = 0;
  using Knowledge = std::vector<std::uint32_t>;  // by warp
  std::vector<Knowledge> known_;
  std::vector<std::vector<Knowledge>> arrived_;  // by barrier
  std::vector<std::uint32_t> read_time_of_warp_;
  // By grain:
  std::vector<std::uint32_t> write_time_, read_time_, read_warps_, atomic_time_, atomic_warps_;
  std::vector<std::uint16_t> writer_, reader_, atomic_thread_;
};

}  // namespace gpusim::ptx
