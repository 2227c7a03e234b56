// cp.async, its groups and waits.
#include "ptx/async_copy.h"

#include <algorithm>
#include <cstring>

#include "ptx/lanes.h"
#include "ptx/lowering.h"
#include "ptx/memory_access.h"
#include "ptx/statistics.h"

namespace gpusim::ptx {
namespace {

// The destination in `a`, the source in `b`, its size in `c` (may be absent: all).
void start_copy(Execution& run, const Instruction& i, std::uint32_t mask) {
  LaneAddresses to;
  lane_addresses(run, i, mask, to);
  Instruction from_instruction = i;
  from_instruction.a = i.b;
  from_instruction.space = Space::global;
  from_instruction.narrow_address = false;
  from_instruction.immediate = static_cast<std::int64_t>(static_cast<std::int32_t>(i.target));
  LaneAddresses from;
  lane_addresses(run, from_instruction, mask, from);
  if (run.statistics != nullptr) [[unlikely]] {
    count_access(*run.statistics, {Space::global, from, mask, i.bytes, false});
    count_access(*run.statistics, {Space::shared, to, mask, i.bytes, true});
  }
  AsyncCopies& copies = run.warp->copies;
  for_each_lane(mask, [&](std::uint32_t lane) {
    std::uint32_t source_bytes = i.bytes;
    if (i.source.exists && (read_predicate(run, i.source) >> lane & 1U) != 0) {
      source_bytes = 0;  // ignore-src
    } else if (i.c.exists()) {
      source_bytes = std::min<std::uint32_t>(i.bytes, lanes_of<std::uint32_t>(run, i.c)[lane]);
    }
    // The source is judged now, where the program names it; its bytes are fetched when the copy completes.
    if (source_bytes > 0) {
      const std::size_t whole = std::bit_ceil(source_bytes);
      for (std::uint32_t at = 0; at < source_bytes; at += whole == source_bytes ? source_bytes : 1)
        lane_memory(run, lane, Space::global, from.lane[lane] + at, whole == source_bytes ? whole : 1, Use::read);
    }
    copies.pending.push_back({.lane = lane,
                              .group = copies.committed[lane],
                              .pc = run.pc,
                              .bytes = i.bytes,
                              .source_bytes = source_bytes,
                              .shared_offset = to.lane[lane],
                              .source = from.lane[lane]});
  });
}

void complete(Execution& run, const AsyncCopies::Pending& copy) {
  const std::uint32_t here = run.pc;
  run.pc = copy.pc;  // reports name the cp.async
  std::byte* to = lane_memory(run, copy.lane, Space::shared, copy.shared_offset, copy.bytes, Use::write);
  std::memset(to, 0, copy.bytes);
  if (copy.source_bytes > 0) std::memcpy(to, run.memory.translate(copy.source), copy.source_bytes);
  run.pc = here;
}

template <class Condition>
void complete_where(Execution& run, Warp& warp, Condition condition) {
  auto& pending = warp.copies.pending;
  run.shared_races.begin_instruction();
  std::size_t kept = 0;
  for (const AsyncCopies::Pending& copy : pending) {
    if (condition(copy)) {
      complete(run, copy);
    } else {
      pending[kept++] = copy;
    }
  }
  pending.resize(kept);
}

void commit_group(Execution& run, const Instruction& /*i*/, std::uint32_t mask) {
  for_each_lane(mask, [&](std::uint32_t lane) { ++run.warp->copies.committed[lane]; });
}

// All but the newest `immediate` groups of each lane.
void wait_group(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto& committed = run.warp->copies.committed;
  complete_where(run, *run.warp, [&](const AsyncCopies::Pending& copy) {
    return (mask >> copy.lane & 1U) != 0 && copy.group + static_cast<std::uint64_t>(i.immediate) < committed[copy.lane];
  });
}

void wait_all(Execution& run, const Instruction& /*i*/, std::uint32_t mask) {
  complete_where(run, *run.warp, [&](const AsyncCopies::Pending& copy) { return (mask >> copy.lane & 1U) != 0; });
}

void lower_copy(Lowering& lowering, Instruction instruction) {
  const int cache = lowering.take_one_of({"ca", "cg"});
  if (cache < 0 || lowering.take_one_of({"shared", "shared::cta"}) < 0 || !lowering.take("global"))
    lowering.unsupported("this form of cp.async");
  lowering.take_one_of({"L2::64B", "L2::128B", "L2::256B"});
  lowering.expect_arguments(3, 4);
  const std::uint64_t bytes = lowering.constant_integer(2);
  if (bytes != 16 && (cache == 1 || (bytes != 4 && bytes != 8))) lowering.unsupported("size of cp.async");
  const MemoryArgument to = lowering.memory(0);
  const MemoryArgument from = lowering.memory(1);
  if (from.is_narrow || from.offset != static_cast<std::int32_t>(from.offset)) lowering.unsupported("source address");
  instruction.handler = start_copy;
  instruction.space = Space::shared;
  instruction.a = to.address;
  instruction.narrow_address = to.is_narrow;
  instruction.immediate = to.offset;
  instruction.b = from.address;
  instruction.target = static_cast<std::uint32_t>(static_cast<std::int32_t>(from.offset));
  instruction.bytes = static_cast<std::uint8_t>(bytes);
  if (lowering.argument_count() == 4) {
    if (lowering.is_predicate(lowering.argument(3))) {
      instruction.source = lowering.predicate_source(3);
    } else {
      instruction.c = lowering.source(3, Type::u32);
    }
  }
  lowering.emit(instruction);
}

void lower_cp(Lowering& lowering) {
  Instruction instruction = lowering.start();
  if (!lowering.take("async")) lowering.unsupported("cp without .async");
  if (lowering.take("commit_group")) {
    instruction.handler = commit_group;
  } else if (lowering.take("wait_group")) {
    lowering.expect_arguments(1, 1);
    instruction.handler = wait_group;
    instruction.immediate = static_cast<std::int64_t>(lowering.constant_integer(0));
  } else if (lowering.take("wait_all")) {
    instruction.handler = wait_all;
  } else {
    return lower_copy(lowering, instruction);
  }
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {{"cp", lower_cp}};

}  // namespace

void finish_copies(Execution& run, Warp& warp, std::uint32_t lanes) {
  complete_where(run, warp, [&](const AsyncCopies::Pending& copy) { return (lanes >> copy.lane & 1U) != 0; });
}

std::span<const Family> async_copy_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
