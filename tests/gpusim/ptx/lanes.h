// Access to the 32 lanes of an operand. A lane takes a slot of 4 bytes (8 for 64-bit types); narrower values lie in the
// low bits, extended by their sign. Rows are read in place: results may overwrite their own sources lane by lane.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "ptx/execution.h"
#include "ptx/half.h"

namespace gpusim::ptx {

template <class T>
using Slot = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
inline T from_slot(Slot<T> slot) {
  if constexpr (sizeof(T) == sizeof(Slot<T>)) {
    return std::bit_cast<T>(slot);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(static_cast<std::uint16_t>(slot));
  } else {
    return std::bit_cast<T>(static_cast<std::uint8_t>(slot));
  }
}

template <class T>
inline Slot<T> to_slot(T value) {
  if constexpr (sizeof(T) == sizeof(Slot<T>)) {
    return std::bit_cast<Slot<T>>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
  } else {
    return std::bit_cast<std::uint16_t>(value);
  }
}

template <class T>
class Lanes {
 public:
  explicit Lanes(const Slot<T>* slots) : slots_(slots) {}
  T operator[](std::uint32_t lane) const { return from_slot<T>(slots_[lane]); }

 private:
  const Slot<T>* slots_;
};

template <class T>
inline Slot<T>* slots_of(Execution& run, Operand operand) {
  return reinterpret_cast<Slot<T>*>(run.pools[operand.pool()] + operand.offset());
}
template <class T>
inline Lanes<T> lanes_of(Execution& run, Operand operand) {
  return Lanes<T>(slots_of<T>(run, operand));
}

template <class S>
inline void blend(S* row, const S* fresh, std::uint32_t mask) {
  if (mask == kAllLanes) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) row[lane] = fresh[lane];
    return;
  }
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) row[lane] = (mask >> lane & 1U) != 0 ? fresh[lane] : row[lane];
}

// d[lane] = compute(lane) for the lanes of the mask. `compute` must be harmless for the others: it is evaluated there
// too.
template <class T, class Compute>
inline void write_lanes(Execution& run, Operand d, std::uint32_t mask, Compute compute) {
  Slot<T>* row = slots_of<T>(run, d);
  if (mask == kAllLanes) {
#pragma GCC ivdep  // a source is the same row or another one, never a shifted one
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) row[lane] = to_slot<T>(compute(lane));
  } else {
    alignas(64) Slot<T> fresh[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) fresh[lane] = to_slot<T>(compute(lane));
    blend(row, fresh, mask);
  }
}

inline std::uint32_t read_predicate(const Execution& run, Predicate predicate) {
  return run.predicates[predicate.index] ^ (predicate.negated ? kAllLanes : 0U);
}
inline void write_predicate(Execution& run, Predicate predicate, std::uint32_t value, std::uint32_t mask) {
  if (!predicate.exists) return;
  std::uint32_t& row = run.predicates[predicate.index];
  row = (row & ~mask) | (value & mask);
}

// Calls visit(lane) for each lane of the mask, lowest first.
template <class Visit>
inline void for_each_lane(std::uint32_t mask, Visit visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<std::uint32_t>(std::countr_zero(mask)));
}

}  // namespace gpusim::ptx
