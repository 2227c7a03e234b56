// cp.async: copies from global to shared memory that a thread has started and not yet waited for. The data arrives at
// the wait and not before, so that a missing wait shows.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/device_memory.h"

namespace gpusim::ptx {

struct Execution;
struct Warp;

struct AsyncCopies {
  struct Pending {
    std::uint32_t lane = 0;
    std::uint32_t group = 0;  // of its lane: how many it had committed before
    std::uint32_t pc = 0;     // of the cp.async
    std::uint32_t bytes = 0;
    std::uint32_t source_bytes = 0;  // the rest is filled with zeros
    std::size_t shared_offset = 0;
    Address source = 0;
  };
  std::vector<Pending> pending;
  std::array<std::uint32_t, 32> committed{};

  void clear() {
    pending.clear();
    committed.fill(0);
  }
};

// A thread that ends without a wait: its copies arrive all the same.
void finish_copies(Execution& run, Warp& warp, std::uint32_t lanes);

}  // namespace gpusim::ptx
