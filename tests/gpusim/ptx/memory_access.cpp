// Address translation and checks for ld, st, atomics and copies.
#include "ptx/memory_access.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/operations.h"
#include "ptx/lanes.h"
#include "ptx/location.h"

namespace gpusim::ptx {
namespace {

const char* verb(Use use) {
  switch (use) {
    case Use::read:
    case Use::strong_read:
      return "read";
    case Use::atomic:
      return "atomic update";
    default:
      return "write";
  }
}
Access access_of(Use use) {
  return is_read(use) ? Access::read : use == Use::atomic ? Access::atomic : Access::write;
}

std::string size_text(std::size_t bytes) {
  return " of " + std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

struct Where {
  const Execution* run;
  std::uint32_t lane;
};
std::string where_text(void* argument) {
  const Where& where = *static_cast<const Where*>(argument);
  return location(*where.run, where.lane);
}

// Races of an access that the memory allows.
void watch_global(Execution& run, std::uint32_t lane, Address address, std::size_t bytes, Use use) {
  const BlockRaces::Verdict verdict = run.block_races.access(address, bytes, use);
  if (verdict.first_touch && run.has_operation) [[unlikely]] {
    Where where{&run, lane};
    touch(address, bytes, access_of(use), where_text, &where);
  }
  if (verdict.conflict != 0) [[unlikely]] {
    note(run, Finding::block_race, lane,
         std::string("race between blocks: ") + verb(use) + size_text(bytes) + " that block " +
             block_name(run, run.block_races.block_of(verdict.conflict)) + " has " + verdict.other_access +
             " without anything that orders the two; " + DeviceMemory::get().describe(address) + ",");
  }
}

// Something is unusual about the access: the memory says what. Returns when it is allowed all the same.
void judge_global(Execution& run, std::uint32_t lane, Address address, std::size_t bytes, Use use) {
  const auto wrong = DeviceMemory::get().violation(address, bytes, access_of(use));
  if (!wrong) return;
  const std::string what = std::string(verb(use)) + size_text(bytes) + ": " + wrong->text + ",";
  if (wrong->finding != Finding::uninitialised_read) fail(run, wrong->finding, lane, what);
  note(run, wrong->finding, lane, what);
}

std::byte* global_lane(Execution& run, std::uint32_t lane, Address address, std::size_t bytes, Use use) {
  const DeviceMemory& memory = run.memory;
  bool is_usual = memory.contains(address) && memory.contains(address + bytes - 1) &&
                  memory.device_of(address) == run.kernel.module->device;
  std::uint8_t* shadow = memory.shadow(address);
  if (is_usual) {
    bool is_open = true;
    bool any_written = !needs_value(use);
    for (std::size_t byte = 0; byte < bytes; ++byte) {
      is_open &= shadow[byte] != kNotAddressable;
      any_written |= shadow[byte] == kWritten;
    }
    is_usual = is_open && any_written;
  }
  if (!is_usual) [[unlikely]]
    judge_global(run, lane, address, bytes, use);
  if (!is_read(use)) std::memset(shadow, kWritten, bytes);
  watch_global(run, lane, address, bytes, use);
  return memory.translate(address);
}

void note_shared(Execution& run, std::uint32_t lane, std::size_t offset, std::size_t bytes, Use use,
                 const SharedRaces::Finding& finding) {
  const std::string place = "__shared__ bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes - 1);
  if (finding.kind == SharedRaces::Finding::Kind::uninitialised) {
    note(run, Finding::uninitialised_read, lane, "read of " + place + " that no thread of the block has written,");
  } else {
    const bool same_warp = finding.other_thread / kLanes == run.warp->index;
    note(run, Finding::shared_memory_race, lane,
         std::string("shared-memory race: ") + verb(use) + " of " + place + " that thread " +
             thread_name(run, finding.other_thread) + " has " + finding.other_access + " without " +
             (same_warp ? "__syncwarp()" : "__syncthreads()") + " in between,");
  }
}

void check_shared_bounds(const Execution& run, std::uint32_t lane, std::uint64_t offset, std::size_t bytes, Use use) {
  if (offset + bytes <= run.shared_bytes && offset + bytes >= bytes) return;
  fail(run, Finding::out_of_bounds, lane,
       std::string("out-of-bounds __shared__ ") + verb(use) + size_text(bytes) + ": offset " +
           std::to_string(static_cast<std::int32_t>(offset)) + " of " + std::to_string(run.shared_bytes));
}

std::byte* shared_lane(Execution& run, std::uint32_t lane, std::uint64_t offset, std::size_t bytes, Use use) {
  check_shared_bounds(run, lane, offset, bytes, use);
  const auto finding = run.shared_races.access(offset, bytes, run.warp->index * kLanes + lane, use);
  if (finding.kind != SharedRaces::Finding::Kind::none) note_shared(run, lane, offset, bytes, use, finding);
  return run.shared.data() + offset;
}

std::byte* local_lane(Execution& run, std::uint32_t lane, std::uint64_t offset, std::size_t bytes, Use use) {
  if (offset + bytes > run.kernel.local_bytes || offset + bytes < bytes) {
    fail(run, Finding::out_of_bounds, lane,
         std::string("out-of-bounds local ") + verb(use) + size_text(bytes) + ": offset " +
             std::to_string(static_cast<std::int64_t>(offset)) + " of " + std::to_string(run.kernel.local_bytes));
  }
  return run.local.data() + (run.warp->index * kLanes + lane) * run.kernel.local_bytes + offset;
}

std::byte* parameter_lane(Execution& run, std::uint32_t lane, std::uint64_t offset, std::size_t bytes, Use use) {
  const auto parameters = run.launch.parameters;
  if (offset + bytes > parameters.size() || !is_read(use)) {
    fail(run, Finding::out_of_bounds, lane,
         std::string(verb(use)) + size_text(bytes) + " at offset " + std::to_string(offset) + " of the " +
             std::to_string(parameters.size()) + " parameter bytes");
  }
  return const_cast<std::byte*>(parameters.data()) + offset;  // only read
}

// How many lanes from `first` on (all in the mask) follow each other at the stride.
std::uint32_t length_of(const LaneAddresses& addresses, std::uint32_t mask, std::uint32_t first, std::uint64_t stride) {
  const std::uint64_t base = addresses.lane[first] - first * stride;
  if (mask == kAllLanes && first == 0) {
    std::uint64_t difference = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) difference |= addresses.lane[lane] ^ (base + lane * stride);
    if (difference == 0) return kLanes;
  }
  std::uint32_t end = first + 1;
  while (end < kLanes && (mask >> end & 1U) != 0 && addresses.lane[end] == base + end * stride) ++end;
  return end - first;
}

Segment find_segment(const LaneAddresses& addresses, std::uint32_t mask, std::size_t bytes) {
  Segment segment;
  segment.first = static_cast<std::uint32_t>(std::countr_zero(mask)) & (kLanes - 1);
  const std::uint32_t next = segment.first + 1;
  const bool is_same =
      next < kLanes && (mask >> next & 1U) != 0 && addresses.lane[next] == addresses.lane[segment.first];
  segment.stride = is_same ? 0 : bytes;
  segment.count = length_of(addresses, mask, segment.first, segment.stride);
  return segment;
}

// All bytes hold `kWritten`, eight at a time.
bool all_written(const std::uint8_t* shadow, std::size_t bytes) {
  std::uint64_t difference = 0;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, shadow + at, 8);
    difference |= word ^ 0x0202020202020202U;
  }
  for (; at < bytes; ++at) difference |= static_cast<std::uint64_t>(shadow[at] ^ kWritten);
  return difference == 0;
}

std::byte* global_run(Execution& run, std::uint32_t lane, Address address, std::size_t bytes, Use use) {
  const DeviceMemory& memory = run.memory;
  if (!memory.contains(address) || !memory.contains(address + bytes - 1)) return nullptr;
  if (memory.device_of(address) != run.kernel.module->device) return nullptr;
  std::uint8_t* shadow = memory.shadow(address);
  if (!all_written(shadow, bytes)) {
    if (is_read(use)) return nullptr;
    if (std::memchr(shadow, kNotAddressable, bytes) != nullptr) return nullptr;
    std::memset(shadow, kWritten, bytes);
  }
  watch_global(run, lane, address, bytes, use);
  return memory.translate(address);
}

}  // namespace

std::uint64_t window_of(Space space) {
  switch (space) {
    case Space::shared:
      return kSharedWindow;
    case Space::local:
      return kLocalWindow;
    case Space::parameter:
      return kParameterWindow;
    default:
      return 0;
  }
}

Space space_of(std::uint64_t generic_address) {
  switch (generic_address & kWindowMask) {
    case kSharedWindow:
      return Space::shared;
    case kLocalWindow:
      return Space::local;
    case kParameterWindow:
      return Space::parameter;
    default:
      return Space::global;
  }
}

Space lane_addresses(Execution& run, const Instruction& instruction, std::uint32_t mask, LaneAddresses& addresses) {
  const auto offset = static_cast<std::uint64_t>(instruction.immediate);
  if (instruction.narrow_address) {
    const std::uint32_t* row = slots_of<std::uint32_t>(run, instruction.a);
    const auto narrow = static_cast<std::uint32_t>(offset);  // the sum wraps, as addresses of 32 bits do
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) addresses.lane[lane] = row[lane] + narrow;
  } else {
    const std::uint64_t* row = slots_of<std::uint64_t>(run, instruction.a);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) addresses.lane[lane] = row[lane] + offset;
  }
  if (instruction.space == Space::global) return Space::global;
  if (instruction.space != Space::generic) {
    // A shared address that was taken as a generic one keeps its window.
    for (std::uint64_t& address : addresses.lane) address &= ~kWindowMask;
    return instruction.space;
  }
  const std::uint64_t window = addresses.lane[std::countr_zero(mask)] & kWindowMask;
  std::uint64_t difference = 0;
  for_each_lane(mask, [&](std::uint32_t lane) { difference |= (addresses.lane[lane] & kWindowMask) ^ window; });
  if (difference != 0) return Space::generic;
  const Space space = space_of(window);
  if (space != Space::global)
    for (std::uint64_t& address : addresses.lane) address &= ~kWindowMask;
  return space;
}

std::byte* lane_memory(Execution& run, std::uint32_t lane, Space space, std::uint64_t address, std::size_t bytes,
                       Use use) {
  if (space == Space::generic) {
    space = space_of(address);
    if (space != Space::global) address &= ~kWindowMask;
  }
  if ((address & (bytes - 1)) != 0) [[unlikely]] {
    fail(run, Finding::misaligned, lane,
         std::string("misaligned ") + verb(use) + size_text(bytes) + " at " +
             (space == Space::global ? DeviceMemory::get().describe(address) : "offset " + std::to_string(address)));
  }
  switch (space) {
    case Space::shared:
      return shared_lane(run, lane, address, bytes, use);
    case Space::local:
      return local_lane(run, lane, address, bytes, use);
    case Space::parameter:
      return parameter_lane(run, lane, address, bytes, use);
    default:
      return global_lane(run, lane, address, bytes, use);
  }
}

Segment next_segment(Execution& run, Space space, const LaneAddresses& addresses, std::uint32_t mask, std::size_t bytes,
                     Use use) {
  Segment segment = find_segment(addresses, mask, bytes);
  const std::uint64_t begin = addresses.lane[segment.first];
  if ((begin & (bytes - 1)) != 0) return segment;
  const std::size_t length = segment.stride == 0 ? bytes : segment.count * bytes;
  if (space == Space::global) {
    segment.memory = global_run(run, segment.first, begin, length, use);
  } else if (begin + length <= run.shared_bytes && begin + length >= length) {
    const std::uint32_t thread = run.warp->index * kLanes + segment.first;
    const std::uint32_t accesses = segment.stride == 0 ? 1 : segment.count;
    const auto finding = run.shared_races.access_run(begin, bytes, thread, accesses, use);
    if (finding.kind != SharedRaces::Finding::Kind::none) {
      note_shared(run, segment.first + finding.lane_index, begin + finding.lane_index * bytes, bytes, use, finding);
    }
    segment.memory = run.shared.data() + begin;
  }
  return segment;
}

bool has_long_segment(const LaneAddresses& addresses, std::uint32_t mask, std::size_t bytes) {
  const std::uint32_t count = find_segment(addresses, mask, bytes).count;
  return count >= 8 || count == static_cast<std::uint32_t>(std::popcount(mask));
}

bool shared_lanes(Execution& run, const LaneAddresses& addresses, std::uint32_t mask, std::size_t bytes, Use use) {
  std::uint64_t largest = 0;
  std::uint64_t low_bits = 0;
  for_each_lane(mask, [&](std::uint32_t lane) {
    largest = std::max(largest, addresses.lane[lane]);
    low_bits |= addresses.lane[lane];
  });
  if ((low_bits & (bytes - 1)) != 0 || largest >= run.shared_bytes || largest + bytes > run.shared_bytes) return false;
  return run.shared_races.access_lanes(addresses.lane, mask, bytes, run.warp->index, use);
}

}  // namespace gpusim::ptx
