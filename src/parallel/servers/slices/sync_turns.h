// When a tensor is synchronised, where a job does so with a part of the model at a time (plan.sync.layers and .rotate):
// a pure function of the clock, so that servers and workers agree without a word. In the clocks between, workers go on
// with what they have of it, and servers expect nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace trifold {

struct SyncTurns {
  std::int64_t every = 1;  // it is its turn in every so-many-th clock; 0: only when it is all tensors'
  std::int64_t turn = 0;   // the first of them
  // All tensors are synchronised in the last clock before each multiple of these: what is kept then is a whole model.
  std::vector<std::int64_t> all_before = {};

  bool at(std::int64_t clock) const { return next(clock) == clock; }
  std::int64_t next(std::int64_t clock) const;          // the first one from this clock on
  std::int64_t count_before(std::int64_t clock) const;  // of them
  bool operator==(const SyncTurns&) const = default;
};

}  // namespace trifold
