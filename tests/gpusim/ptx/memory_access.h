// Lane addresses to memory, with every check: bounds, alignment, initialisation, races. A fault ends the kernel; what a
// real GPU would let pass (uninitialised reads, races) is reported and the kernel goes on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ptx/execution.h"

namespace gpusim::ptx {

// Generic addresses carry their space in the top byte; global ones are plain.
inline constexpr std::uint64_t kSharedWindow = std::uint64_t{1} << 56;
inline constexpr std::uint64_t kLocalWindow = std::uint64_t{2} << 56;
inline constexpr std::uint64_t kParameterWindow = std::uint64_t{4} << 56;
inline constexpr std::uint64_t kWindowMask = std::uint64_t{0xff} << 56;
std::uint64_t window_of(Space space);
Space space_of(std::uint64_t generic_address);

struct LaneAddresses {
  alignas(64) std::uint64_t lane[kLanes];
};
// The addresses of a memory instruction (register or constant, plus offset), and the space they all lie in: a generic
// instruction becomes one on that space when its active lanes agree, and its addresses lose their window.
Space lane_addresses(Execution& run, const Instruction& instruction, std::uint32_t mask, LaneAddresses& addresses);

// Memory of one lane. Null for a read that the simulated memory answers with nothing (never for allowed accesses).
std::byte* lane_memory(Execution& run, std::uint32_t lane, Space space, std::uint64_t address, std::size_t bytes,
                       Use use);

// Neighbouring lanes whose addresses follow each other (stride = bytes of a lane) or are the same (stride 0).
struct Segment {
  std::byte* memory = nullptr;  // of the first lane
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::size_t stride = 0;
};
// The segment that begins at the first lane of the mask, as long as possible, in global or shared memory. Its memory is
// null when something is wrong with it: then its lanes have to go one by one, so that the culprit is named.
Segment next_segment(Execution& run, Space space, const LaneAddresses& addresses, std::uint32_t mask, std::size_t bytes,
                     Use use);

// Long segments are worth looking for: the first one has at least eight lanes, or all of them.
bool has_long_segment(const LaneAddresses& addresses, std::uint32_t mask, std::size_t bytes);

// All lanes at once, at any offsets of shared memory. False: something has to be looked at lane by lane.
bool shared_lanes(Execution& run, const LaneAddresses& addresses, std::uint32_t mask, std::size_t bytes, Use use);

}  // namespace gpusim::ptx
