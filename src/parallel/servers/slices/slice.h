// A model as parameter servers see it: named tensors, cut into slices. A slice is the unit that a server owns, that a
// push changes and a pull brings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/servers/slices/sync_turns.h"

namespace trifold {

struct ServedTensor {
  std::string name;
  std::int64_t elements = 0;
  bool trained = true;  // false: a running statistic, which is averaged, not optimised
  // Of a statistic: the share of its old value that a shard's clock keeps, where every shard moves it on alike; 0: not.
  double keeps = 0;
  bool decays = true;    // weight decay applies
  SyncTurns turns = {};  // in every clock, unless the job says otherwise

  bool operator==(const ServedTensor&) const = default;
};

struct Slice {
  int tensor = 0;          // index
  std::int64_t begin = 0;  // elements of it
  std::int64_t end = 0;

  std::int64_t elements() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

inline constexpr std::int64_t kSliceElements = 256 * 1024;  // at most

// The longest a slice of this model is unless told otherwise: 1/512 of it, so that servers can share it evenly; not
// above kSliceElements, nor so short that headers cost more than they bring.
std::int64_t slice_limit(const std::vector<ServedTensor>& tensors);

// All tensors, in their order; none is cut into more slices, or less equal ones, than `largest` (0: slice_limit) asks
// for. A tensor without elements has no slice.
std::vector<Slice> cut_into_slices(const std::vector<ServedTensor>& tensors, std::int64_t largest = 0);

// A name that does not depend on the other tensors: "conv1.weight[0:262144]".
std::string name_of(const Slice& slice, const std::vector<ServedTensor>& tensors);

}  // namespace trifold
