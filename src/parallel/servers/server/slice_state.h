// Everything a server knows of one slice: what it hands on when the slice gets a replica or moves, and what a cut
// keeps. Copies share the numbers; whoever changes numbers that are shared makes new ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/error.h"

namespace trifold {

using SharedFloats = std::shared_ptr<const std::vector<float>>;

// Whose push of a clock counts, where a rule chooses one (round_choice.h).
struct RoundChoice {
  std::int64_t clock = -1;  // none
  int shard = -1;

  bool operator==(const RoundChoice&) const = default;
};

struct SliceState {
  SharedFloats values = {};
  SharedFloats before = {};                // the values of the version before, where known
  std::vector<SharedFloats> states = {};   // the optimiser's, as long as the values each
  std::int64_t epoch = 0;                  // in which its owner came to own it
  std::int64_t version = 0;                // grows by one with every change
  std::int64_t updates = 0;                // the optimiser's, for its corrections
  std::vector<std::int64_t> applied = {};  // by shard: clocks whose pushes are in the values
  RoundChoice choice = {};                 // by which the last round was completed
  // Of the last rounds, those that did not wait for all: by clock, the shards whose push is not in the values, and
  // never will be. Whoever goes on with the slice must not call it taken.
  std::map<std::int64_t, std::vector<int>> left_out = {};
  // States that are kept for managers, by the clock that all shards had done then; they have none themselves.
  std::map<std::int64_t, std::shared_ptr<const SliceState>> cuts = {};

  // The same slice, as a later owner has it or later as the same one does.
  bool newer_than(const SliceState& other) const {
    return epoch != other.epoch ? epoch > other.epoch : version > other.version;
  }

  // Clocks that all shards have done.
  std::int64_t least() const {
    TRIFOLD_CHECK(!applied.empty(), "a slice of no shards");
    return *std::ranges::min_element(applied);
  }
};

}  // namespace trifold
